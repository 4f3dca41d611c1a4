"""Programs as JSON: what is written comes back, and nothing else is believed."""

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.members import Member, tensors_of
from sparsemble.programs import Blueprint, Graph, Held, InputRange, Own, Program, Ref, Step
from sparsemble.programs.graph import Constant
from sparsemble.programs.writing import blueprint_from_json, blueprint_to_json
from sparsemble.structure import Size
from sparsemble.tasks import Classification
from sparsemble.tracing import describe
from zoo import CASES
from zoo.traced import difference, traced

CONDITION = ("<=", 2, ("*", "steps", 3))
SPACES = ("hidden", "heads of 'the' first layer", "ünïts")


def blueprint(*arguments: Any, **keywords: Any) -> Blueprint:
    """One step with these arguments, after one of its own."""
    graph = Graph(
        ("x",),
        (
            Step("before", "aten.relu.default", (Ref("x"),), layer="0"),
            Step("after", "aten.add.Tensor", arguments, tuple(keywords.items()), "a.b"),
        ),
        (Ref("after"), {"logits": Ref("before")}),
    )
    return Blueprint(
        training=graph,
        evaluating=graph,
        tensors=("0.weight", "a.b.bias", "a.mean"),
        parameters=frozenset({"0.weight", "a.b.bias"}),
        frozen=frozenset({"0.weight"}),
        aliases=(("0.weight", "tied.weight"),),
        inputs=(InputRange((3, 5, 7), "float32", -1.5, 2.0, ((1, 5),), ((2, "steps"),)),),
        named=("mask",),
        conditions=(CONDITION,),
    )


def through_text(written: Blueprint) -> Blueprint:
    text = json.dumps(blueprint_to_json(written), allow_nan=False)
    return blueprint_from_json(json.loads(text), SPACES)


leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31)
    | st.just(2**63 - 1)
    | st.floats()
    | st.text()
    | st.sampled_from([Ref("x"), Ref("before"), Held("0.weight"), Held("a.b.bias")])
    | st.sampled_from([Own("dtype"), Own("device")])
    | st.sampled_from(["float32", "int64", "bool", "strided", "contiguous_format"]).map(Constant)
    | st.builds(
        lambda fixed, each: Size(fixed, tuple(each.items())),
        st.integers(-1000, 1000),
        st.dictionaries(st.sampled_from(SPACES), st.integers(1, 64)),
    )
)
arguments = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=50)
@given(st.lists(arguments, max_size=4), st.dictionaries(st.text("abc", min_size=1), arguments))
def test_arguments_of_any_kind_come_back(given_ones: list[Any], named: dict[str, Any]) -> None:
    written = blueprint(*given_ones, **named)
    # As words: what is no number is not equal to itself.
    assert repr(through_text(written)) == repr(written)


def test_numbers_that_json_has_not_come_back() -> None:
    (_, step) = through_text(blueprint(math.inf, -math.inf, math.nan)).training.steps
    assert step.arguments[:2] == (math.inf, -math.inf)
    assert math.isnan(step.arguments[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt_tied", "bilstm_states", "group_norm", "named_outputs"])
def test_a_traced_network_comes_back_and_computes_the_same_bits(name: str) -> None:
    _, found = traced(CASES[name])
    text = json.dumps(blueprint_to_json(found.program.blueprint_), allow_nan=False)
    read = blueprint_from_json(json.loads(text), set(found.layout.sizes))
    assert read == found.program.blueprint_
    other = Program(read, tensors_of(found.program), found.layout.sizes)
    inputs = CASES[name].example(3)
    with torch.no_grad():
        program = copy.deepcopy(found.program).eval()
        assert difference(program(*inputs), other.eval()(*inputs)) == 0


# --- what is refused ---------------------------------------------------------------------------


def step(*parts: Any) -> Callable[[dict[str, Any]], None]:
    """Put other parts into the second step: name, operation, arguments, keywords, layer."""

    def change(fields: dict[str, Any]) -> None:
        for at, part in enumerate(parts):
            if part is not None:
                fields["evaluating"]["steps"][1][at] = part

    return change


def argument(value: Any) -> Callable[[dict[str, Any]], None]:
    return step(None, None, [value])


def entry(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda fields: fields.update({key: value})


def first_input(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda fields: fields["inputs"][0].update(changed)


def graph(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda fields: fields["training"].update({key: value})


UNKNOWN = "is not one that programs know"
NONE = "which is none"
UNREADABLE = "cannot be read"
DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "reads files": (step(None, "aten.from_file.default"), UNKNOWN),
    "runs commands": (step(None, "os.system"), UNKNOWN),
    "python's eval": (step(None, "eval"), UNKNOWN),
    "another library": (step(None, "sparsemble.lstm.default"), UNKNOWN),
    "no operation": (step(None, "aten.__class__.default"), UNKNOWN),
    "dunder overload": (step(None, "aten.add.__init__"), UNKNOWN),
    "unknown overload": (step(None, "aten.add.Nothing"), UNKNOWN),
    "storage": (step(None, "aten.set_.source_Storage"), UNKNOWN),
    "resizing": (step(None, "aten.resize_.default"), UNKNOWN),
    "operation is a number": (step(None, 7), UNREADABLE),
    "operation is a list": (step(None, ["aten.relu.default"]), UNREADABLE),
    "unknown value": (argument({"value": "nothing"}), NONE),
    "its own result": (argument({"value": "after"}), NONE),
    "a later result": (
        lambda fields: (
            fields["evaluating"]["steps"].reverse()
            or fields["evaluating"]["steps"][0].__setitem__(2, [{"value": "before"}])
        ),
        NONE,
    ),
    "value is a number": (argument({"value": 3}), NONE),
    "value is a list": (argument({"value": ["x"]}), UNREADABLE),
    "defined twice": (step("before"), "'before', twice or of no possible name"),
    "named as an input": (step("x"), "'x', twice or of no possible name"),
    "name with a blank": (step("a b"), "'a b', twice or of no possible name"),
    "name is a number": (step(5), "5, twice or of no possible name"),
    "input twice": (graph("inputs", ["x", "x"]), "'x', twice or of no possible name"),
    "absurd number": (argument(2**64), "absurd size 18446744073709551616"),
    "absurd negative number": (argument(-(2**64)), "absurd size"),
    "absurd number deep inside": (argument([[[2**70]]]), "absurd size"),
    "absurd size": (argument({"size": [0, {"hidden": 2**40}]}), NONE),
    "absurd fixed size": (argument({"size": [2**40, {}]}), NONE),
    "unknown space": (argument({"size": [0, {"ghost": 1}]}), NONE),
    "size is a number": (argument({"size": 5}), UNREADABLE),
    "size of words": (argument({"size": ["a", {"hidden": "b"}]}), UNREADABLE),
    "a million steps": (
        graph("steps", [["a", "aten.relu.default", [], {}, ""]] * 1_000_000),
        "1000000 steps is too long",
    ),
    "tensor with a tab": (argument({"tensor": "a\tb"}), NONE),
    "tensor with a quote": (argument({"tensor": "a'; import os; '"}), NONE),
    "tensor with a slash": (argument({"tensor": "../weight"}), NONE),
    "tensor without a name": (argument({"tensor": ""}), NONE),
    "tensor is a number": (argument({"tensor": 5}), UNREADABLE),
    "own home": (argument({"own": "home"}), NONE),
    "own momentum": (argument({"own": "momentum"}), NONE),
    "torch.load": (argument({"torch": "load"}), NONE),
    "torch is a list": (argument({"torch": []}), UNREADABLE),
    "number is a word": (argument({"number": "many"}), UNREADABLE),
    "dict is a number": (argument({"dict": 5}), UNREADABLE),
    "two kinds at once": (argument({"value": "x", "tensor": "0.weight"}), UNREADABLE),
    "no kind": (argument({}), UNREADABLE),
    "unknown kind": (argument({"call": "x"}), NONE),
    "a step too short": (graph("steps", [["a", "aten.relu.default"]]), UNREADABLE),
    "a step that is a word": (graph("steps", ["aten.relu.default"]), UNREADABLE),
    "steps that are a number": (graph("steps", 3), UNREADABLE),
    "keywords that are a list": (step(None, None, None, ["alpha"]), UNREADABLE),
    "arguments that are a number": (step(None, None, 5), UNREADABLE),
    "no outputs": (lambda fields: fields["training"].pop("outputs"), UNREADABLE),
    "no training": (lambda fields: fields.pop("training"), UNREADABLE),
    "unknown outputs": (graph("outputs", {"value": "ghost"}), NONE),
    "parameter with a quote": (entry("parameters", ["0.weight'"]), "impossible name"),
    "parameter is a number": (entry("parameters", [0]), UNREADABLE),
    "alias with a tab": (entry("aliases", [["0.weight", "a\tb"]]), "impossible name"),
    "alias of three": (entry("aliases", [["a", "b", "c"]]), UNREADABLE),
    "tensor of an impossible name": (entry("tensors", ["a..b"]), "impossible name"),
    "condition that is code": (entry("conditions", [["eval", 1]]), "which is none"),
    "condition on an unknown length": (entry("conditions", [["<=", 2, "ghost"]]), "which is none"),
    "condition that is a word": (entry("conditions", ["import os"]), "which is none"),
    "inputs of no type": (first_input(dtype="quaternion"), "input is described by"),
    "inputs of a type that is code": (first_input(dtype="load"), "input is described by"),
    "inputs of negative length": (first_input(shape=[-1, 5]), "input is described by"),
    "inputs of absurd length": (first_input(shape=[2**40]), "input is described by"),
    "inputs of absurd size": (first_input(shape=[2**20, 2**20]), "too large"),
    "inputs of words": (first_input(shape="many"), UNREADABLE),
}


@pytest.mark.parametrize(("change", "why"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_named(change: Callable[[dict[str, Any]], None], why: str) -> None:
    fields = json.loads(json.dumps(blueprint_to_json(blueprint(Ref("x"), 2, alpha=3))))
    blueprint_from_json(copy.deepcopy(fields), SPACES)  # it is good before
    change(fields)
    with pytest.raises((CorruptFileError, InputError), match=why):
        blueprint_from_json(fields, SPACES)


def test_a_program_of_two_values_of_one_name_is_refused_however_it_was_made() -> None:
    twice = Graph(("x",), (Step("x", "aten.relu.default", (Ref("x"),)),), Ref("x"))
    made = Blueprint(twice, twice, (), frozenset(), frozenset(), (), ())
    with pytest.raises(InputError, match="two values of one name"):
        Program(made, {}, {})


def test_other_numbers_of_inputs_than_the_networks_are_refused() -> None:
    _, found = traced(CASES["named_outputs"])
    x = torch.zeros(3, 6)
    with pytest.raises(InputError, match="2 inputs were given to a network of 1"):
        found.program(x, x)


def test_a_part_may_be_called_by_several_words_and_not_with_quotation_marks(tmp_path) -> None:
    class Named(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({name: nn.Linear(4, 5)})
            self.last, self.name = nn.Linear(5, 3), name

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.parts[self.name](x).relu())

    inputs = torch.randn(3, 4)
    found = describe(Named("layer one"), inputs)
    member = Member.dense(found.program, found.layout)
    Ensemble([member], Classification(num_classes=3)).save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    with torch.no_grad():
        assert difference(loaded[0](inputs), member.eval()(inputs)) == 0
    with pytest.raises(InputError, match="a name that no file could keep"):
        describe(Named("it's"), inputs)
