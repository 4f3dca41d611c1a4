"""Growing is the reverse of compaction: the same outputs, with all units there again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import compact, grown
from sparsemble.nets import SmallCNN
from sparsemble.tracing import describe


def random_masks(network: nn.Module, weights: tuple[str, ...]) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    masks = {name: torch.rand(network.get_parameter(name).shape) < 0.7 for name in weights}
    for mask in masks.values():
        mask[torch.rand(len(mask)) < 0.4] = False  # units without inputs, so that some go
    return masks


@pytest.mark.parametrize("kind", ["feed-forward", "traced"])
def test_a_grown_member_computes_the_same_and_learns_with_all_units(kind: str) -> None:
    torch.manual_seed(0)
    if kind == "traced":
        inputs = torch.randn(5, 1, 8, 8)
        traced = describe(SmallCNN((1, 8, 8), (6, 5), 3), inputs)
        network, layout, fresh = traced.program, traced.layout, SmallCNN((1, 8, 8), (6, 5), 3)
    else:
        inputs = torch.randn(5, 7)
        network, fresh = (
            nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 3))
            for _ in range(2)
        )
        layout = layout_of(network)
    member = compact(network, layout, random_masks(network, layout.weights)).eval()
    assert sum(member.layout.sizes.values()) < sum(layout.sizes.values())
    whole = grown(member, fresh).eval()
    assert {n: p.shape for n, p in whole.named_parameters()} == {
        n: p.shape for n, p in network.named_parameters()
    }
    torch.testing.assert_close(whole(inputs), member(inputs))
    whole(inputs).square().sum().backward()
    weight = whole.get_parameter(layout.weights[-1])
    assert weight.grad is not None
    assert bool(((weight == 0) & (weight.grad != 0)).any())  # what reads new units learns


def test_a_network_of_another_shape_is_refused() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    member = compact(network, layout_of(network), {})
    with pytest.raises(InputError, match=r"cannot grow into a Sequential: its 0\.weight"):
        grown(member, nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)))
