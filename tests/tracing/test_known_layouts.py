"""Layouts written by hand as the oracle: traces of the same networks find the same slots."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from sparsemble.layouts import feedforward_layout, language_layout
from sparsemble.nets import LanguageModel
from sparsemble.structure import Layout, Role, measure
from sparsemble.tracing import describe

Place = tuple[str, int, str, int, int, int]


def places(layout: Layout, prefix: str = "") -> dict[str, frozenset[Place]]:
    """The slots of every space: parameter, dimension, role, tile, block and offset."""
    found: dict[str, set[Place]] = {space.name: set() for space in layout.spaces}
    for slot in layout.slots:
        name = slot.parameter.removeprefix(prefix)
        found[slot.space].add((name, slot.dim, slot.role, slot.tile, slot.block, slot.offset))
    return {name: frozenset(own) for name, own in found.items()}


def by_place(layout: Layout, prefix: str = "") -> dict[frozenset[Place], tuple[int, bool, bool]]:
    """Spaces by their slots, whatever their names: how many units, which may go, which are last."""
    own = places(layout, prefix)
    return {
        own[space.name]: (space.size, space.kind.may_go, space.kind == "output")
        for space in layout.spaces
        if own[space.name]
    }


def sequential(*widths: int, bias: bool = True, flat: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()] if flat else []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after, bias=bias), nn.Sigmoid(), nn.Dropout(0.2)]
    return nn.Sequential(*layers[:-2])


FEEDFORWARD = {
    "plain": (sequential(6, 5, 4, 3), (6,)),
    "without biases": (sequential(6, 5, 3, bias=False), (6,)),
    "flattened pictures": (sequential(12, 7, 3, flat=True), (3, 4)),
    "one layer": (sequential(5, 2), (5,)),
    "layers of one width": (sequential(5, 5, 5, 5), (5,)),
    "nested": (nn.Sequential(sequential(4, 6, 5), nn.ReLU(), nn.Linear(5, 2)), (4,)),
}


@pytest.mark.parametrize(("network", "shape"), FEEDFORWARD.values(), ids=FEEDFORWARD)
def test_feedforward_networks_have_the_same_slots(
    network: nn.Sequential, shape: tuple[int, ...]
) -> None:
    found = describe(network, torch.randn(3, *shape)).layout
    wanted = feedforward_layout(network)
    assert by_place(found) == by_place(wanted)
    assert [space.kind for space in found.spaces] == [space.kind for space in wanted.spaces]


@pytest.mark.parametrize(("network", "shape"), FEEDFORWARD.values(), ids=FEEDFORWARD)
def test_feedforward_networks_cost_the_same(network: nn.Sequential, shape: tuple[int, ...]) -> None:
    found = describe(network, torch.randn(3, *shape)).layout
    wanted = feedforward_layout(network)
    masks = {name: torch.rand(network.get_parameter(name).shape) < 0.5 for name in wanted.weights}
    assert set(found.weights) == set(wanted.weights)
    assert measure(found, masks).flops == measure(wanted, masks).flops
    assert measure(found, masks).parameters == measure(wanted, masks).parameters
    assert measure(found, masks).structure == measure(wanted, masks).structure


class Stateless(nn.Module):
    """A language model that begins every text anew, and takes texts first."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, text: Tensor) -> Tensor:
        outputs, _ = self.model(text.t())
        return outputs.transpose(0, 1)


def language_models(hidden: Sequence[int], shared: bool) -> tuple[Layout, Layout]:
    """What a trace finds, and what is written by hand."""
    model = LanguageModel(words=11, embedding=hidden[-1] if shared else 6, hidden=hidden,
                          shared=shared)  # fmt: skip
    found = describe(Stateless(model), torch.randint(11, (4, 5))).layout
    return found, language_layout(model)


WORDS = ("embedding.weight", 0, Role.CONSUMER, 1, 1, 0)
"""That the words are read by their table is said by hand, and has no consequence."""


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["plain", "shared"])
@pytest.mark.parametrize("hidden", [(5,), (7, 5), (8, 7, 6)], ids=str)
def test_language_models_have_the_same_slots(hidden: tuple[int, ...], shared: bool) -> None:
    found, wanted = language_models(hidden, shared)
    by_hand = {own - {WORDS}: size for own, size in by_place(wanted).items()}
    assert by_place(found, "model.") == by_hand


@pytest.mark.parametrize("shared", [False, True], ids=["plain", "shared"])
def test_language_models_are_silenced_by_the_same_slots(shared: bool) -> None:
    found, wanted = language_models((7, 5), shared)

    def silencers(layout: Layout, prefix: str) -> set[frozenset[object]]:
        return {
            frozenset(
                (s.parameter.removeprefix(prefix), s.dim, s.part.number, s.part.count)
                for s in space.silencers
            )
            for space in layout.spaces
            if any(slot.parameter.startswith(f"{prefix}layers") for slot in space.silencers)
        }

    assert silencers(found, "model.") == silencers(wanted, "")
