"""Saved ensembles of traced networks: they come back without the class, and damage is refused."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.programs import Program
from sparsemble.store import read_json, write_json
from sparsemble.structure.groupings import grouped
from sparsemble.tasks import Classification
from sparsemble.tracing import Traced, describe
from zoo import CASES
from zoo.traced import random_masking, traced

pytestmark = pytest.mark.slow


class TwoWays(nn.Module):
    """Two layers in both directions over a series."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 7, 2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(14, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.lstm(x)[0].mean(dim=1))


def traced_kind(name: str) -> tuple[nn.Module, Traced, Tensor]:
    """A network, what a trace says of it, and inputs."""
    if name in CASES:
        (inputs,) = CASES[name].example(4)
        return (*traced(CASES[name]), inputs)
    network, inputs = TwoWays(), torch.randn(4, 5, 3)
    return network, describe(network, inputs), inputs


KINDS = {"a CNN": "vgg_bn", "a Transformer": "torch_encoder_post", "an LSTM": "both ways"}
kinds = pytest.mark.parametrize("name", KINDS.values(), ids=KINDS)


def ensemble_of(network: nn.Module, found: Traced) -> Ensemble:
    """Two members of one traced network, with other weights and other units in each."""
    layout = grouped(found.layout, "outgoing")
    members = [
        random_masking(network, Traced(found.program, layout), "both", rate, seed=seed).member
        for seed, rate in enumerate((0.3, 0.5))
    ]
    return Ensemble([member.float() for member in members], Classification())


def said_by(ensemble: Ensemble, inputs: Tensor) -> Tensor:
    """What the members say, each by itself: together, a short timing chooses how they compute."""
    with torch.no_grad():
        return torch.stack([member.eval()(inputs) for member in ensemble])


@kinds
def test_everything_comes_back(name: str, tmp_path: Path) -> None:
    network, found, inputs = traced_kind(name)
    ensemble = ensemble_of(network, found)
    ensemble.save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    assert torch.equal(said_by(loaded, inputs), said_by(ensemble, inputs))
    torch.testing.assert_close(loaded(inputs), ensemble(inputs))
    assert loaded.cost == ensemble.cost
    assert ensemble[0].cost.structure != ensemble[1].cost.structure
    for old, new in zip(ensemble, loaded, strict=True):
        assert new.cost == old.cost
        assert new.layout == old.layout
        assert new.origin.group_sizes == old.origin.group_sizes
        assert all(torch.equal(new.masks[mask], old.masks[mask]) for mask in old.masks)
        assert all(torch.equal(new.origin.units[s], old.origin.units[s]) for s in old.origin.units)
        assert str(new.network) == str(old.network)
        own, other = old.network.state_dict(), new.network.state_dict()
        assert own.keys() == other.keys()
        assert all(torch.equal(own[key], other[key]) for key in own)
        assert all(own[key].dtype is other[key].dtype for key in own)


def test_both_directions_of_a_layer_come_back_with_sizes_of_their_own(tmp_path: Path) -> None:
    network, found, _ = traced_kind("both ways")
    ensemble_of(network, found).save(tmp_path)
    sizes = [member.layout.sizes for member in Ensemble.load(tmp_path)]
    assert any(own["lstm.l0"] != own["lstm.l0_reverse"] for own in sizes)


ELSEWHERE = """
import sys
import torch
from safetensors.torch import load_file, save_file
from sparsemble import Ensemble
for folder in sys.argv[1:]:
    inputs = load_file(f"{folder}/inputs.safetensors")["inputs"]
    with torch.no_grad():
        said = [member.eval()(inputs) for member in Ensemble.load(f"{folder}/ensemble")]
    save_file({"said": torch.stack(said)}, f"{folder}/said.safetensors")
assert not [name for name in sys.modules if name.startswith(("zoo", "test_"))]
"""


def test_a_process_that_does_not_know_the_classes_predicts_the_same_bits(tmp_path: Path) -> None:
    wanted = {}
    for kind, name in KINDS.items():
        network, found, inputs = traced_kind(name)
        ensemble = ensemble_of(network, found)
        ensemble.save(tmp_path / kind / "ensemble")
        save_file({"inputs": inputs}, tmp_path / kind / "inputs.safetensors")
        wanted[kind] = said_by(ensemble, inputs)
    folders = [str(tmp_path / kind) for kind in KINDS]
    subprocess.run([sys.executable, "-c", ELSEWHERE, *folders], check=True)
    for kind, said in wanted.items():
        assert torch.equal(load_file(tmp_path / kind / "said.safetensors")["said"], said), kind


# --- damage ------------------------------------------------------------------------------------


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.fc1, self.fc2 = nn.Linear(16, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.fc2(torch.relu(self.fc1(x)))


INPUTS = torch.linspace(-1, 1, 32).view(2, 1, 4, 4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved ensemble; change only copies."""
    folder = tmp_path_factory.mktemp("whole")
    torch.manual_seed(0)
    network = Small()
    ensemble_of(network, describe(network, INPUTS)).save(folder)
    return folder


def changed(whole: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy whose manifest, with a right checksum, says something else."""
    manifest = read_json(whole / "manifest.json")
    change(manifest)
    write_json(folder / "manifest.json", manifest)
    for file in whole.glob("*.safetensors"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def steps(manifest: dict[str, Any]) -> list[Any]:
    return manifest["program"]["blueprint"]["evaluating"]["steps"]


def set_step(at: int, part: int, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: steps(manifest)[at].__setitem__(part, value)


def set_argument(at: int, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: steps(manifest)[at][2].__setitem__(0, value)


def in_layout(key: str, at: int, **values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["program"]["layout"][key][at].update(values)


def forget(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["members"][0]["shapes"].pop(name)


def swap(manifest: dict[str, Any]) -> None:
    own = steps(manifest)
    own[0], own[1] = own[1], own[0]


def first(operation: str, *arguments: Any) -> Callable[[dict[str, Any]], object]:
    """Another operation before all others."""
    x = {"value": "x"}

    def insert(manifest: dict[str, Any]) -> None:
        graph = manifest["program"]["blueprint"]["evaluating"]
        x["value"] = graph["inputs"][0]
        graph["steps"].insert(0, ["odd", f"aten.{operation}.default", [x, *arguments], {}, ""])

    return insert


def of_input(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest["program"]["blueprint"]["inputs"][0].update(values)


NAN = {"number": "nan"}
NOT_KNOWN = "is not one that programs know"
DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "an operation that reads files": (set_step(0, 1, "aten.from_file.default"), NOT_KNOWN),
    "an operation that runs commands": (set_step(0, 1, "os.system"), NOT_KNOWN),
    "an unknown value": (set_argument(1, {"value": "ghost"}), "'ghost'.*which is none"),
    "use before definition": (swap, "which is none"),
    "a value twice": (lambda m: steps(m).insert(0, steps(m)[0]), "twice or of no possible name"),
    "an absurd size": (set_argument(1, 2**70), "absurd size"),
    "a slope that is no number": (first("leaky_relu", NAN), "no possible number"),
    "a slope beyond all": (first("leaky_relu_", 1e300), "no possible number"),
    "an infinite beta": (first("softplus", {"number": "inf"}), "no possible number"),
    "a beta of 0": (first("softplus", 0), "beta of 0"),
    "dropout of no share": (first("dropout", NAN, False), "no possible number"),
    "a bare infinity": (first("mul", math.inf), "where a number should be"),
    "inputs that are no numbers": (of_input(low=math.nan), "lies between nan"),
    "inputs beyond memory": (of_input(shape=[2, 2**29]), "too large"),
    "an unknown space": (set_argument(1, {"size": [0, {"ghost": 2}]}), "which is none"),
    "a tensor of an impossible name": (set_argument(1, {"tensor": "a 'b"}), "which is none"),
    "no program": (lambda m: m["program"].pop("blueprint"), "blueprint"),
    "a program that is a word": (lambda m: m.update(program="import os"), "program"),
    "no layout": (lambda m: m["program"].pop("layout"), "layout"),
    "a tensor less": (forget("fc1.bias"), "fit|tensors"),
    "a buffer less": (forget("norm.running_var"), "fit|tensors"),
    "an unknown buffer": (lambda m: m["buffers"].update(ghost="float32"), "fit|tensors"),
    "a buffer of another type": (
        lambda m: m["buffers"].update({"norm.running_var": "float64"}),
        "fit|stream",
    ),
    "a parameter more": (
        lambda m: m["program"]["blueprint"]["parameters"].append("ghost.weight"),
        "stored tensors are not those",
    ),
    "other numbers of units": (lambda m: m["members"][0]["units"].update(fc1=1), "fit|units"),
    "a slot of an unknown space": (in_layout("slots", 0, space="ghost"), "ghost"),
    "a slot of an unknown tensor": (in_layout("slots", 0, parameter="ghost"), "ghost"),
    "a slot outside its tensor": (in_layout("slots", 0, offset=10**6), "fit|slot"),
    "a slot of a dimension that is none": (in_layout("slots", 0, dim=9), "fit|slot"),
    "a space that is called": (in_layout("spaces", 1, constant="os.system"), "constant"),
    "a space of words": (in_layout("spaces", 1, size="many"), "size"),
    "a kind of space that is none": (in_layout("spaces", 1, kind="secret"), "kind"),
    "a matrix of an unknown tensor": (in_layout("matrices", 0, parameters=["ghost"]), "ghost"),
}


@pytest.mark.parametrize(("change", "why"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_refused_and_named(
    change: Callable[[dict[str, Any]], object], why: str, whole: Path, tmp_path: Path
) -> None:
    folder = changed(whole, tmp_path, change)
    with pytest.raises((CorruptFileError, InputError), match=why) as error:
        Ensemble.load(folder)
    assert "manifest.json" in str(error.value)


LATER: dict[str, Callable[[dict[str, Any]], object]] = {
    "a space of an absurd size": in_layout("spaces", 1, size=2**40),
    "a tensor that there is not": set_argument(1, {"tensor": "ghost.weight"}),
    "a method in place of a tensor": set_argument(1, {"tensor": "forward"}),
    "a word where a tensor belongs": set_argument(1, "rm -rf"),
    "a list where a tensor belongs": set_argument(1, [1, 2, 3]),
    "no arguments at all": set_step(1, 2, []),
    "an argument of no such name": set_step(1, 3, {"ghost": 1}),
    "a link of an unknown value": in_layout("links", 0, value="ghost"),
    "a link of an unknown weight": in_layout("links", 0, weight="ghost"),
    "memory without end": lambda m: steps(m).insert(
        0, ["greedy", "aten.zeros.default", [[2**30, 2**30]], {}, ""]
    ),
}


@pytest.mark.parametrize("change", LATER.values(), ids=LATER)
def test_damage_that_only_a_run_can_show_is_refused_as_well(
    change: Callable[[dict[str, Any]], object], whole: Path, tmp_path: Path
) -> None:
    folder = changed(whole, tmp_path, change)
    with pytest.raises((CorruptFileError, InputError)):
        Ensemble.load(folder)(INPUTS)


def test_an_untouched_copy_is_whole(whole: Path, tmp_path: Path) -> None:
    loaded = Ensemble.load(changed(whole, tmp_path, lambda manifest: None))
    assert torch.equal(said_by(loaded, INPUTS), said_by(Ensemble.load(whole), INPUTS))
    assert all(isinstance(member.network, Program) for member in loaded)


def test_a_manifest_holds_no_code(whole: Path) -> None:
    text = json.dumps(read_json(whole / "manifest.json"))
    assert not [word for word in ("pickle", "import", "lambda", "Small", "<") if word in text]
