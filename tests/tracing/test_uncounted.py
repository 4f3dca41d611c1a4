"""Weights that are multiplied in ways that no rule knows are pruned and counted all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.flop_counter import FlopCounterMode

from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.members import Member
from sparsemble.stages.pruning import Share, within
from sparsemble.tasks import Classification
from sparsemble.tracing import describe

pytestmark = pytest.mark.slow


class Network(nn.Module):
    """A layer, whatever it is called with, and a plain one after it."""

    def __init__(
        self, layer: nn.Module, width: int, call: Callable[[nn.Module, Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.layer, self.last, self.call = layer, nn.Linear(width, 3), call

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.call(self.layer, x).relu())


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 16, 8))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bd,hde->bhe", x, self.weight).flatten(1)


class Standardised(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight / weight.std((1, 2, 3), keepdim=True), self.bias)


PLAIN = torch.randn(4, 16)
PICTURES = torch.randn(2, 8, 6, 6)
CASES: dict[str, tuple[Network, Tensor, int | None]] = {
    "weight_norm": (
        Network(parametrizations.weight_norm(nn.Linear(16, 12)), 12, lambda own, x: own(x)),
        PLAIN,
        None,
    ),
    "einsum": (Network(Heads(), 32, lambda own, x: own(x)), PLAIN, None),
    "standardised": (
        Network(Standardised(8, 5, 3), 5, lambda own, x: own(x).mean((2, 3))),
        PICTURES,
        None,
    ),
    "transposed in groups": (
        Network(nn.ConvTranspose2d(8, 8, 3, groups=4), 8, lambda own, x: own(x).mean((2, 3))),
        PICTURES,
        None,
    ),
    # torch counts neither of these: every weight is multiplied once, at each of five positions.
    "bilinear": (Network(nn.Bilinear(16, 16, 6), 6, lambda own, x: own(x, x)), PLAIN, 16 * 16 * 6),
    "projections": (
        Network(nn.LSTM(6, 32, proj_size=8, batch_first=True), 8, lambda own, x: own(x)[0][:, -1]),
        torch.randn(3, 5, 6),
        5 * (4 * 32 * 6 + 4 * 32 * 8 + 8 * 32),
    ),
}


COMPUTED = {"weight_norm", "standardised"}
"""Whose weights are divided by what is computed of them, and therefore not pruned."""


@pytest.mark.parametrize("name", CASES)
def test_parameters_and_flops_are_those_of_the_network(name: str) -> None:
    network, inputs, products = CASES[name]
    found = describe(network, inputs)
    cost = Member.dense(found.program, found.layout).cost
    assert cost.parameters == sum(p.numel() for p in network.parameters() if p.ndim > 1)
    if products is None:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network.eval()(inputs)
        assert cost.flops == counter.get_total_flops() / len(inputs)
    else:
        assert cost.flops == 2 * (products + network.last.weight.numel())


@pytest.mark.parametrize("name", sorted(CASES.keys() - COMPUTED))
def test_they_are_pruned_to_a_budget_that_counts_them(name: str) -> None:
    network, inputs, _ = CASES[name]
    found = describe(network, inputs)
    member = within(Member.dense(found.program, found.layout), Share(parameters=0.5))
    ensemble = Ensemble([member], Classification(num_classes=3))
    assert ensemble.cost.parameters_ratio <= 0.5
    left = sum(int(p.count_nonzero()) for p in member.network.parameters() if p.ndim > 1)
    assert left <= 0.5 * sum(p.numel() for p in network.parameters() if p.ndim > 1)
    assert bool(ensemble.predictive(inputs).isfinite().all())


@pytest.mark.parametrize("name", sorted(COMPUTED))
def test_a_budget_leaves_room_for_weights_that_others_are_computed_of(name: str) -> None:
    network, inputs, _ = CASES[name]
    found = describe(network, inputs)
    dense = Member.dense(found.program, found.layout)
    computed = dense.cost.parameters - network.last.weight.numel()
    least = (computed + 1) / dense.cost.parameters
    member = within(dense, Share(parameters=least))
    assert member.cost.parameters == computed + 1
    assert int(member.network.get_parameter("last.weight").count_nonzero()) == 1
    cost = Ensemble([member], Classification(num_classes=3)).cost
    biases = sum(p.numel() for p in member.network.parameters() if p.ndim == 1)
    assert cost.bytes == 4 * (computed + 1 + biases)
    too_small = Share(parameters=0.9 * computed / dense.cost.parameters)
    assert Share(parameters=least).suffices(dense)
    assert not too_small.suffices(dense)
    with pytest.raises(InputError, match="computed of cannot be pruned"):
        within(dense, too_small)
