"""The paper's accounting, against the figures it prints and those derived from its rules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scenarios import Recurrent, full_masks, mlp, recurrent_layout
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.structure import Cost, Layout, Matrix, Part, Role, Slot, Space, SpaceKind, measure
from sparsemble.structure.units import WHOLE

WIDTHS = (784, 300, 100, 10)


def cost_of_structure(*kept: int) -> Cost:
    """FNN-784-300-100-10 in which only the first `kept` units of each layer have weights."""
    network = mlp(*WIDTHS)
    layout = layout_of(network)
    masks = full_masks(layout, network)
    for mask, columns, rows in zip(masks.values(), kept[:-1], kept[1:], strict=True):
        mask[rows:] = False
        mask[:, columns:] = False
    return measure(layout, masks)


class TestThePapersNetwork:
    def test_dense_it_has_266k_parameters_and_532k_flops(self):
        cost = cost_of_structure(*WIDTHS)
        assert cost.parameters == 784 * 300 + 300 * 100 + 100 * 10 == 266_200
        assert cost.flops == 532_400
        assert cost.structure == WIDTHS

    def test_364_82_22_10_costs_64k_flops(self):
        assert cost_of_structure(364, 82, 22, 10).flops == 63_744

    def test_380_128_24_10_costs_104k_flops(self):
        assert cost_of_structure(380, 128, 24, 10).flops == 103_904

    def test_the_flops_are_told_matrix_by_matrix(self):
        assert cost_of_structure(364, 82, 22, 10).matrices == {
            "0": 2 * 364 * 82,
            "2": 2 * 82 * 22,
            "4": 2 * 22 * 10,
        }

    def test_the_compact_member_costs_what_the_masked_network_does(self):
        network = mlp(*WIDTHS)
        layout = layout_of(network)
        masks = full_masks(layout, network)
        for mask, columns, rows in zip(masks.values(), (364, 82, 22), (82, 22, 10), strict=True):
            mask[rows:] = False
            mask[:, columns:] = False
        member = compact(network, layout, masks)
        assert member.cost == Cost(
            parameters=63_744 // 2,
            shapes={"0": (82, 364), "2": (22, 82), "4": (10, 22)},
            structure=(364, 82, 22, 10),
        )
        assert member.cost.matrices == {"0": 59_696, "2": 3_608, "4": 440}


def one_matrix(mask: list[list[int]], part: Part = WHOLE) -> int:
    """FLOPs of one matrix with the given non-zeros."""
    written = torch.tensor(mask) > 0
    space = Space("rows", len(mask), SpaceKind.OUTPUT)
    slot = Slot("w", 0, "rows", Role.PRODUCER)
    layout = Layout((space,), (slot,), (Matrix("m", ("w",), part),))
    return measure(layout, {"w": written}).flops


class TestTheSmallestSubMatrix:
    @pytest.mark.parametrize(
        ("mask", "flops"),
        [
            ([[1, 1, 1], [1, 1, 1]], 2 * 2 * 3),
            ([[0, 0, 0], [0, 0, 0]], 0),
            ([[0, 0, 0], [0, 1, 0]], 2 * 1 * 1),
            ([[1, 0, 1], [0, 0, 0]], 2 * 1 * 2),
            ([[1, 0, 0], [0, 0, 1]], 2 * 2 * 2),
            ([[1, 0, 0], [1, 0, 0]], 2 * 2 * 1),
        ],
    )
    def test_rows_and_columns_without_weights_cost_nothing(self, mask, flops):
        assert one_matrix(mask) == flops

    def test_a_part_of_the_rows_is_a_matrix_of_its_own(self):
        # Two gates of two rows each: 1×2 and 2×1 instead of 3×3 together.
        mask = [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 1]]
        assert one_matrix(mask) == 2 * 3 * 3
        assert one_matrix(mask, part=Part(0, 2)) == 2 * 1 * 2
        assert one_matrix(mask, part=Part(1, 2)) == 2 * 2 * 1

    def test_parameters_side_by_side_are_one_matrix(self):
        # [x, h]: rows 0 and 1 are used by one or the other, columns 1 of 2 and 1 of 3.
        masks = {
            "reading.weight": torch.tensor([[1, 0], [0, 0], [0, 0]]) > 0,
            "recurrent.weight": torch.tensor([[0, 0, 0], [0, 0, 1], [0, 0, 0]]) > 0,
            "output.weight": torch.tensor([[0, 0, 1]]) > 0,
        }
        cost = measure(recurrent_layout(2, 3, 1), masks)
        assert cost.matrices == {"step": 2 * 2 * 2, "output": 2 * 1 * 1}
        assert cost.flops == 10

    def test_side_by_side_and_a_part_of_the_rows_together(self):
        space = Space("rows", 4, SpaceKind.OUTPUT)
        slots = tuple(Slot(name, 0, "rows", Role.PRODUCER) for name in ("a", "b"))
        layout = Layout((space,), slots, (Matrix("gate", ("a", "b"), part=Part(1, 2)),))
        masks = {
            "a": torch.tensor([[1, 1], [1, 1], [1, 0], [0, 0]]) > 0,
            "b": torch.tensor([[1, 1], [1, 1], [0, 0], [0, 1]]) > 0,
        }
        assert measure(layout, masks).flops == 2 * 2 * 2


def test_biases_are_not_counted():
    with_bias, without = mlp(3, 4, 2), mlp(3, 4, 2, bias=False)
    costs = [Member.dense(net, layout_of(net)).cost for net in (with_bias, without)]
    assert costs[0] == costs[1]
    assert costs[0].parameters == 20


def test_parameters_are_counted_by_mask_even_where_a_kept_weight_is_zero():
    network = mlp(2, 2)
    nn.init.zeros_(network[0].weight)
    masks = {"0.weight": torch.tensor([[True, True], [True, False]])}
    assert measure(layout_of(network), masks).parameters == 3


def test_parameters_that_are_not_multiplied_cost_no_flops():
    layout = recurrent_layout(2, 3, 1)
    only_output = Layout(layout.spaces, layout.slots, layout.matrices[1:], layout.families)
    masks = full_masks(layout, Recurrent(2, 3, 1))
    cost = measure(only_output, masks)
    assert cost.parameters == 2 * 3 + 3 * 3 + 3
    assert cost.flops == 2 * 3


class Gated(nn.Module):
    """Two gates stacked in one matrix: `y = V(tanh(Ax)·sigmoid(Bx))`."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs, 2 * hidden)
        self.output = nn.Linear(hidden, 1)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.gates(x).chunk(2, dim=1)
        return self.output(torch.tanh(value) * torch.sigmoid(gate))


def test_parts_follow_their_units_through_compaction():
    layout = Layout(
        spaces=(
            Space("inputs", 3, SpaceKind.INPUT),
            Space("hidden", 4),
            Space("outputs", 1, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("gates.weight", 1, "inputs", Role.CONSUMER),
            Slot("gates.weight", 0, "hidden", Role.PRODUCER, tile=2),
            Slot("gates.bias", 0, "hidden", Role.BIAS, tile=2),
            Slot("output.weight", 1, "hidden", Role.CONSUMER),
            Slot("output.weight", 0, "outputs", Role.PRODUCER),
            Slot("output.bias", 0, "outputs", Role.BIAS),
        ),
        matrices=(
            Matrix("value", ("gates.weight",), part=Part(0, 2)),
            Matrix("gate", ("gates.weight",), part=Part(1, 2)),
        ),
    )
    network = Gated(3, 4)
    masks = full_masks(layout, network)
    masks["output.weight"][:, [1, 2, 3]] = False  # one hidden unit is left
    masks["gates.weight"][0, 1:] = False  # whose value reads one input, its gate all three
    member = compact(network, layout, masks)
    assert member.network.gates.weight.shape == (2, 3)
    assert member.cost.matrices == {"value": 2 * 1 * 1, "gate": 2 * 1 * 3}
