"""A member is a module: its masks and input list are buffers, its calls pick what it reads."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import sparsemble
from scenarios import full_masks, mlp, recurrent_layout
from sparsemble.data import ArrayBatches, Dataset
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact, masked
from sparsemble.priors import NoPrior
from sparsemble.samplers import Constant
from sparsemble.stages import RetrainSettings, retrain
from sparsemble.structure import Layout, Matrix, Role, Slot, Space, SpaceKind
from sparsemble.tasks import Classification


def member() -> Member:
    """6-4-3 of which inputs 1 and 4 are read by nobody, and some other weights are missing."""
    network = mlp(6, 4, 3)
    layout = layout_of(network)
    masks = full_masks(layout, network)
    masks["0.weight"][:, [1, 4]] = False
    masks["0.weight"][0, 0] = masks["2.weight"][2, 3] = False
    return compact(network, layout, masks)


# --- buffers ---------------------------------------------------------------------------------


def test_masks_and_inputs_are_buffers_and_in_the_state():
    made = member()
    assert set(dict(made.named_buffers())) == {"mask of 0/weight", "mask of 2/weight", "inputs"}
    state = made.state_dict()
    assert torch.equal(state["mask of 0/weight"], made.masks["0.weight"])
    assert torch.equal(state["mask of 2/weight"], made.masks["2.weight"])
    assert state["inputs"].tolist() == [0, 2, 3, 5]
    assert set(state) == set(dict(made.named_buffers())) | {
        f"network.{name}" for name, _ in made.network.named_parameters()
    }


def test_a_member_that_reads_all_inputs_has_no_list_of_them():
    network = mlp(3, 2)
    dense = Member.dense(network, layout_of(network))
    assert dense.inputs is None
    assert list(dense.state_dict()) == ["mask of 0/weight", "network.0.weight", "network.0.bias"]


def test_a_state_is_loaded_with_its_masks():
    made, other = member(), member()
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor.zero_()
    other.load_state_dict(made.state_dict())
    assert all(torch.equal(other.masks[name], mask) for name, mask in made.masks.items())
    inputs = torch.randn(5, 6, dtype=torch.float64)
    assert torch.equal(other(inputs), made(inputs))
    assert other.cost == made.cost


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_cast_changes_weights_and_leaves_masks_true_or_false(dtype):
    made = member().to(dtype)
    assert made.network[0].weight.dtype is dtype
    assert all(mask.dtype is torch.bool for mask in made.masks.values())
    assert made.inputs.dtype is torch.long
    assert made(torch.randn(5, 6, dtype=dtype)).dtype is dtype
    assert made.cost == member().cost


def test_masks_follow_the_weights_to_another_device():
    made = member().to("meta")
    assert all(mask.is_meta for mask in made.masks.values())
    assert made.inputs.is_meta
    assert made.network[0].weight.is_meta


def test_a_copys_masks_are_its_own():
    made = member()
    copied = copy.deepcopy(made)
    copied.masks["0.weight"].fill_(False)
    assert made.masks["0.weight"].any()
    assert copied.cost.parameters == made.cost.parameters - int(made.masks["0.weight"].sum())


def test_masks_are_no_parameters():
    assert len(list(member().parameters())) == 4
    assert all(p.requires_grad for p in member().parameters())


# --- the pattern -----------------------------------------------------------------------------


def test_the_pattern_tells_which_weights_of_the_whole_network_are_left():
    pattern = member().pattern()
    expected = torch.ones(4, 6, dtype=torch.bool)
    expected[:, [1, 4]] = False
    expected[0, 0] = False
    assert torch.equal(pattern["0.weight"], expected)
    assert pattern["2.weight"].tolist() == [[True] * 4, [True] * 4, [True, True, True, False]]


# --- inputs ----------------------------------------------------------------------------------


def test_inputs_of_any_shape_are_read_by_their_numbers():
    network = nn.Sequential(nn.Flatten(), *mlp(6, 4, 3))
    layout = layout_of(network)
    masks = full_masks(layout, network)
    masks["1.weight"][:, [1, 4]] = False
    made = compact(network, layout, masks)
    pictures = torch.randn(5, 2, 3, dtype=torch.float64)
    expected = masked(network, masks)(pictures)
    torch.testing.assert_close(made(pictures), expected)
    torch.testing.assert_close(made(pictures.flatten(1)), expected)


class Sequences(nn.Module):
    """An RNN over `(batch, steps, features)`, of which the last state is read."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(6, 4, batch_first=True)
        self.output = nn.Linear(4, 2)
        self.double()

    def forward(self, inputs: Tensor) -> Tensor:
        states, _ = self.rnn(inputs)
        return self.output(states[:, -1])


SEQUENCES = Layout(
    spaces=(
        Space("inputs", 6, SpaceKind.INPUT),
        Space("hidden", 4),
        Space("outputs", 2, SpaceKind.OUTPUT),
    ),
    slots=(
        Slot("rnn.weight_ih_l0", 1, "inputs", Role.CONSUMER),
        Slot("rnn.weight_ih_l0", 0, "hidden", Role.PRODUCER),
        Slot("rnn.weight_hh_l0", 0, "hidden", Role.PRODUCER),
        Slot("rnn.weight_hh_l0", 1, "hidden", Role.CONSUMER),
        Slot("rnn.bias_ih_l0", 0, "hidden", Role.BIAS),
        Slot("rnn.bias_hh_l0", 0, "hidden", Role.BIAS),
        Slot("output.weight", 1, "hidden", Role.CONSUMER),
        Slot("output.weight", 0, "outputs", Role.PRODUCER),
        Slot("output.bias", 0, "outputs", Role.BIAS),
    ),
    matrices=(
        Matrix("step", ("rnn.weight_ih_l0", "rnn.weight_hh_l0")),
        Matrix("output", ("output.weight",)),
    ),
)


def test_features_of_every_step_of_a_sequence_are_picked():
    network = Sequences()
    masks = full_masks(SEQUENCES, network)
    masks["rnn.weight_ih_l0"][:, [1, 4]] = False
    masks["rnn.weight_hh_l0"][:, 3] = masks["output.weight"][:, 3] = False
    made = compact(network, SEQUENCES, masks)
    inputs = torch.randn(5, 3, 6, dtype=torch.float64)
    torch.testing.assert_close(made(inputs), masked(network, masks)(inputs))
    assert (made.network.rnn.input_size, made.network.rnn.hidden_size) == (4, 3)


def test_a_recurrent_member_is_retrained_and_asked_with_the_inputs_it_reads():
    network = Sequences()
    masks = full_masks(SEQUENCES, network)
    masks["rnn.weight_ih_l0"][:, [1, 4]] = False
    made = compact(network, SEQUENCES, masks)
    inputs = torch.randn(20, 3, 6, dtype=torch.float64)
    data = Dataset(inputs, torch.randint(2, (20,)), ("no", "yes"))
    task = Classification().training(data, dtype=torch.float64).task
    before = made.network.output.bias.detach().clone()
    settings = RetrainSettings(schedule=Constant(lr=0.1), epochs=1)
    retrain([made], task, ArrayBatches(data, 10, seed=0), NoPrior(), settings)
    assert not torch.equal(made.network.output.bias, before)
    evidence = Ensemble([made], task).evidence(inputs)
    expected = made(inputs).detach().softmax(-1)
    torch.testing.assert_close(evidence, expected.unsqueeze(0), check_dtype=False)


def test_what_else_a_network_takes_is_passed_on():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, inputs: Tensor, factor: float) -> tuple[Tensor, float]:
            return inputs * self.weight * factor, factor

    layout = Layout((Space("outputs", 1, SpaceKind.OUTPUT),), (), ())
    outputs, factor = Member.dense(Scaled(), layout)(torch.ones(2, 1), 3.0)
    assert outputs.tolist() == [[3.0], [3.0]]
    assert factor == 3.0


def test_layouts_without_groups_make_members():
    assert recurrent_layout(2, 3, 1).ungrouped().families == ()
    network = mlp(3, 2)
    made = Member.dense(network, layout_of(network).ungrouped())
    assert made.origin.group_sizes == {}
    assert made.cost.parameters == 6


class ByName(nn.Module):
    """Takes its only input by name."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 2)

    def forward(self, *, rows):
        return self.last(self.first(rows).relu())


def test_features_that_go_may_be_given_by_name():
    torch.manual_seed(0)
    rows = torch.rand(6, 5)
    traced = sparsemble.describe(ByName(), rows=rows)
    masks = full_masks(traced.layout, traced.program)
    masks["first.weight"][:, 1] = False
    member = compact(traced.program, traced.layout, masks)
    without = rows.clone()
    without[:, 1] = 7
    assert len(member.origin.units[member.layout.inputs.name]) == 4
    torch.testing.assert_close(member(rows=rows), member(rows=without))
