"""Rules are broken one by one, and each time it is noticed.

On a network of the zoo the self-check refuses, or other units are found than should be, or outputs
differ from those of the user's masked module.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.programs import Blueprint
from sparsemble.structure import readings
from sparsemble.structure.constants import _silent_units
from sparsemble.tracing import captured, describe, rectangles, spaces, standins, walk
from sparsemble.tracing.atoms import Atoms, unlabelled
from sparsemble.tracing.resizing import _Resized
from sparsemble.tracing.rules import RULES, norms, products, recurrent
from sparsemble.tracing.walk import Walk
from zoo import CASES, Case
from zoo.traced import EQUAL, KINDS, RATES, random_masking, removable, seeded

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


@dataclass(frozen=True)
class Mutation:
    """What is broken, and a network on which that shows."""

    breaks: Break
    network: str


def without_pins(*words: str) -> Break:
    """Units are not kept for reasons that begin so."""

    def breaks(patch: Patch) -> None:
        pin, needs, settled = Atoms.pin, Walk.need_all, Walk.pin

        def is_left_out(reason: str) -> bool:
            return reason.startswith(words)

        patch.setattr(Atoms, "pin", lambda self, x, why: is_left_out(why) or pin(self, x, why))
        patch.setattr(
            Walk, "pin", lambda self, why, *x: None if is_left_out(why) else settled(self, why, *x)
        )
        patch.setattr(
            Walk,
            "need_all",
            lambda self, x, dims, why: is_left_out(why) or needs(self, x, dims, why),
        )

    return breaks


def attribute(owner: Any, name: str, value: Any) -> Break:
    return lambda patch: patch.setattr(owner, name, value)


def rule(name: str, changed: Callable[..., Any]) -> Break:
    """A rule is another function, which is given the right one first."""

    def breaks(patch: Patch) -> None:
        right = RULES[name]
        patch.setitem(RULES, name, lambda *args, **named: changed(right, *args, **named))

    return breaks


def nothing(*_: Any, **__: Any) -> None:
    return None


def without_padding(patch: Patch) -> None:
    right = products.contraction
    patch.setattr(products, "contraction", lambda *a, **k: right(*a, **{**k, "pads": False}))


def without_bias(patch: Patch) -> None:
    right = products.contraction

    def changed(walk: Walk, node: Any, x: Any, weight: Any, bias: Any, **named: Any) -> Any:
        return right(walk, node, x, weight, None, **named)

    patch.setattr(products, "contraction", changed)


def keys_apart(right: Any, walk: Walk, node: Any, q: Any, k: Any, v: Any, *a: Any, **n: Any) -> Any:
    """Keys are united with nothing."""
    return right(walk, node, q, replace(q, labels=q.labels[..., : k.shape[-2], :]), v, *a, **n)


def queries_in_turn(
    right: Any, walk: Walk, node: Any, q: Any, k: Any, v: Any, *a: Any, **named: Any
) -> Any:
    """A head of keys is taken to serve every second head of queries, not two in a row."""
    times = q.shape[-3] // k.shape[-3]
    if times > 1:
        shape = [1] * (k.number.ndim - 3) + [times, 1, 1]
        k, v = (replace(x, labels=x.labels.repeat(shape), number=x.number.repeat(shape))
                for x in (k, v))  # fmt: skip
    return right(walk, node, q, k, v, *a, **{**named, "enable_gqa": False})


def states_apart(patch: Patch) -> None:
    right = recurrent._units
    patch.setattr(
        recurrent, "_units", lambda walk, node, x, states, *rest: right(walk, node, x, [], *rest)
    )


def of_no_unit(self: Walk, *values: Any) -> Tensor:
    """Labels of what comes out, the last of the values."""
    return unlabelled(values[-1].shape)


def groups_apart(right: Any, walk: Walk, node: Any, x: Any, weight: Any, *rest: Any) -> Any:
    """Inputs of a convolution in groups go by themselves."""
    labels = walk.atoms.fresh(x.number.shape[1])
    shape = [1, -1, *[1] * (x.number.ndim - 2)]
    return right(walk, node, replace(x, labels=labels.view(shape).expand(x.shape)), weight, *rest)


def half_of_glu(right: Any, walk: Walk, node: Any, x: Any, dim: int = -1) -> Tensor:
    return walk.labelled(x).chunk(2, dim)[0]


def first_operand(walk: Walk, node: Any, values: Any) -> Tensor:
    """Element by element, but nothing is united."""
    shape = torch.broadcast_shapes(*(value.shape for value in values))
    return walk.labelled(values[0]).expand(shape)


def channels_of_groups(
    right: Any, walk: Walk, node: Any, x: Any, groups: int, *parameters: Any
) -> Any:
    """A channel is a unit, whatever the group it is normed with."""
    return RULES["batch_norm"](walk, node, x, *parameters[:2])


def contracted_apart(patch: Patch) -> None:
    """What a product of two activations contracts is not united."""

    def changed(right: Any, walk: Walk, *args: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Atoms, "along", lambda self, x, dims: x.narrow(dims[0], 0, 1))
            return right(walk, *args)

    rule("matmul", changed)(patch)


def folds_whatever_is_constant(patch: Patch) -> None:
    patch.setattr(readings, "_can_fold", lambda space, link, x, others: ~x.isnan().any(1))


def folds_the_first_position(patch: Patch) -> None:
    """Of what is read only the first position of the first example is looked at."""
    right = readings._read

    def changed(layout: Any, space: Any, slot: Any, link: Any, tensors: Any, seen: Any) -> Tensor:
        if link.value is not None:
            run = seen[link.value][0]
            seen = {link.value: [run.movedim(link.feature, -1).flatten(0, -2)[:1]]}
            link = replace(link, feature=1)
        return right(layout, space, slot, link, tensors, seen)

    patch.setattr(readings, "_read", changed)


def counts_not_resized(patch: Patch) -> None:
    right = _Resized.call

    def changed(self: Any) -> Any:
        self._walk.group_counts = {}
        return right(self)

    patch.setattr(_Resized, "call", changed)


def split_as_it_was(self: Any, target: Any) -> Any:
    return target, self._arguments, dict(self._node.kwargs)


def one_length(patch: Patch) -> None:
    """Each by itself is enough to know that a constant depends on the length."""
    patch.setattr(Atoms, "sum_up", nothing)
    patch.setattr(Blueprint, "other_lengths", lambda self: iter(()))


def without_outputs(patch: Patch) -> None:
    right = Walk._run

    def changed(self: Walk, inputs: Any) -> None:
        right(self, inputs)
        self.output_labels = []

    patch.setattr(Walk, "_run", changed)


MUTATIONS = {
    # what is needed as it is
    "layer_norm does not pin": Mutation(without_pins("normalised across"), "layer_norm_mlp"),
    "softmax does not pin": Mutation(without_pins("computed across"), "inner_softmax"),
    "reductions do not pin": Mutation(without_pins("reduced across"), "centred_units"),
    "picking by number does not pin": Mutation(without_pins("picked by number"), "picked_units"),
    "unknown operations do not pin": Mutation(without_pins("no rule says"), "spectral_side"),
    "unknown values do not pin": Mutation(without_pins("values of no known"), "reader_of_both"),
    "a gate of several units may go": Mutation(without_pins("one value for"), "side_gates"),
    "unknown operands do not pin": Mutation(without_pins("meets values of no"), "added_spectrum"),
    "writing into a part does not pin": Mutation(
        attribute(walk, "_writes_into_a_part", lambda *_: False), "slice_assignment"
    ),
    "the ragged may go": Mutation(attribute(rectangles, "_pin_ragged", nothing), "all_states"),
    "frozen weights may be cut": Mutation(
        attribute(captured.Captured, "learns", lambda self, name: True), "frozen_backbone"
    ),
    "outputs may go": Mutation(without_outputs, "hidden_output"),
    "several inputs may go": Mutation(
        attribute(spaces, "_has_flat_inputs", lambda _: True), "siamese"
    ),
    # what goes together
    "batch_norm attaches nothing": Mutation(attribute(norms, "attach", nothing), "vgg_bn"),
    "biases do not follow": Mutation(without_bias, "mlp"),
    "slopes do not follow": Mutation(
        rule("prelu", lambda right, walk, node, x, weight: walk.labelled(x)), "conv_prelu"
    ),
    "parameters used as data do not follow": Mutation(
        attribute(rectangles, "_settle_elements", nothing), "learned_scales"
    ),
    "operands are not united": Mutation(attribute(walk, "pointwise", first_operand), "resnet"),
    "a gate does not go with its value": Mutation(rule("glu", half_of_glu), "glu_mlp"),
    "keys do not go with queries": Mutation(
        rule("scaled_dot_product_attention", keys_apart), "encoder_sdpa"
    ),
    "keys go with the wrong queries": Mutation(
        rule("scaled_dot_product_attention", queries_in_turn), "llama"
    ),
    "what is contracted is not united": Mutation(contracted_apart, "encoder_by_hand"),
    "groups of a convolution are not united": Mutation(rule("conv2d", groups_apart), "mobilenet"),
    "groups of a norm are not united": Mutation(
        rule("group_norm", channels_of_groups), "group_norm"
    ),
    "embeddings make nothing": Mutation(
        rule("embedding", lambda right, walk, node, weight, ids, *_: None), "lstm_last"
    ),
    "recurrent states are not united": Mutation(states_apart, "seq2seq"),
    "what is made of nothing belongs to no unit": Mutation(
        attribute(Walk, "_loose", of_no_unit), "lstm_last"
    ),
    "copies belong to no unit": Mutation(
        attribute(Walk, "_loose_where_expanded", of_no_unit), "lstm_last_valid"
    ),
    "states are picked from the stack of all": Mutation(
        attribute(standins, "_select_own", nothing), "bilstm_states"
    ),
    # sizes
    "sizes of views stay": Mutation(
        attribute(_Resized, "_shape", lambda self, given, *_: given), "encoder_sdpa"
    ),
    "bounds of slices stay": Mutation(attribute(_Resized, "_bounds", nothing), "summed_directions"),
    "sizes of parts stay": Mutation(attribute(_Resized, "_split", split_as_it_was), "gpt_tied"),
    "numbers of groups stay": Mutation(counts_not_resized, "mobilenet"),
    # constants
    "padding is ignored": Mutation(without_padding, "vgg_bn"),
    "neither sums nor other lengths are looked at": Mutation(one_length, "deep_sets"),
    "data from elsewhere is ignored": Mutation(attribute(Atoms, "feed", nothing), "switched"),
    "whatever is constant is folded": Mutation(folds_whatever_is_constant, "preactivation_resnet"),
    "constants are read at one position": Mutation(folds_the_first_position, "wavenet"),
    "biases that are shared are added to": Mutation(
        attribute(readings, "_sharing", lambda _, readers: [[] for _ in readers]), "shared_reader"
    ),
    "silence is known by weights alone": Mutation(
        attribute(readings, "_silent", lambda layout, own, seen: _silent_units(layout, own)),
        "lstm_sigmoid",
    ),
}


def noticed(case: Case) -> str:
    """How a fault shows on a network; nothing if it does not."""
    with seeded(1):
        network, inputs = case.make(), case.inputs(3, 0)
        try:
            found = describe(network, *inputs)
        except InputError as error:
            return f"refused: {error}"
        except Exception as error:
            return f"cannot be described: {error!r}"
    if case.removable is not None and removable(found.layout) != case.removable:
        return f"other units: {removable(found.layout)}"
    for seed, (kind, rate) in enumerate((k, r) for k in KINDS for r in RATES):
        try:
            masking = random_masking(network, found, kind, rate, seed=seed)
            for variant in (0,) if case.is_unrolled else (0, 1):
                with seeded(seed):
                    own = case.example(4, variant, torch.float64)
                if masking.difference(own) > EQUAL:
                    return f"wrong outputs ({kind}, {rate})"
        except Exception as error:
            return f"cannot be computed: {error!r}"
    return ""


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(own, id=name, marks=() if number % 5 == 0 else pytest.mark.thorough)
        for number, (name, own) in enumerate(MUTATIONS.items())
    ],
)
def test_a_broken_rule_is_noticed(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation.breaks(monkeypatch)
    assert noticed(CASES[mutation.network])


WELL_KNOWN = ("mlp", "lstm_last", "group_norm", "reader_of_both")


@pytest.mark.parametrize(
    "name",
    [
        *WELL_KNOWN,
        # `test_zoo_is_exact.py` says the same of these.
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in sorted({m.network for m in MUTATIONS.values()} - set(WELL_KNOWN))
        ),
    ],
)
def test_nothing_is_noticed_where_nothing_is_broken(name: str) -> None:
    assert not noticed(CASES[name])
