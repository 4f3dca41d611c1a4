"""A compact member gives the outputs of the masked network, and keeps no unit they do not need.

Equal means in real arithmetic: float64, within 1e-10.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from scenarios import (
    Recurrent,
    Skip,
    full_masks,
    mlp,
    random_masks,
    recurrent_layout,
    set_parameters,
    skip_layout,
)
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact, masked
from sparsemble.structure import Family, Layout, Role, Slot, Space, SpaceKind


def assert_same_outputs(
    member: nn.Module, network: nn.Module, masks: dict[str, Tensor], inputs: Tensor
) -> None:
    network = masked(network, masks).eval()
    with torch.no_grad():
        torch.testing.assert_close(member.eval()(inputs), network(inputs), rtol=1e-10, atol=1e-10)


def kept(member: Member) -> dict[str, list[int]]:
    """The units that stayed, by their original numbers."""
    return {name: units.tolist() for name, units in member.origin.units.items()}


# --- any feed-forward network ----------------------------------------------------------------

ACTIVATIONS = (
    nn.ReLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.Softplus,
    nn.GELU,
    nn.Hardswish,
    lambda: nn.ELU(alpha=0.5),
    lambda: nn.LeakyReLU(0.3),
    lambda: nn.Hardtanh(0.25, 0.75),
)


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A feed-forward network and the shape of one of its inputs."""
    depth = draw(st.sampled_from([3, 2, 4, 1]))
    width = st.sampled_from([4, 8, 6, 5, 7, 3, 2, 1])
    widths = draw(st.lists(width, min_size=depth + 1, max_size=depth + 1))
    torch.manual_seed(draw(st.integers(0, 1000)))
    layers: list[nn.Module] = []
    shape: tuple[int, ...] = (widths[0],)
    if draw(st.booleans()):
        layers.append(nn.Flatten())
        if widths[0] % 2 == 0:
            shape = (2, widths[0] // 2)
    for fan_in, fan_out in itertools.pairwise(widths):
        bias = draw(st.sampled_from([True, True, True, False]))
        layers.append(nn.Linear(fan_in, fan_out, bias=bias))
        layers += [draw(st.sampled_from(ACTIVATIONS))() for _ in range(draw(st.integers(0, 2)))]
        if draw(st.booleans()):
            layers.append(nn.Dropout(0.5))
    return nn.Sequential(*layers).double(), shape


@st.composite
def masks_for(draw: st.DrawFn, layout: Layout, network: nn.Module) -> dict[str, Tensor]:
    """Masks of widely varying density, from which whole rows, columns and layers are missing."""
    masks = full_masks(layout, network)
    without_weights = draw(st.sampled_from([None, None, None, None, *masks]))
    for name, mask in masks.items():
        density = draw(st.sampled_from([1.0, 0.8, 0.6, 0.45, 0.3, 0.2]))
        rows = torch.rand(len(mask), 1) < draw(st.sampled_from([1.0, 0.8, 0.5]))
        columns = torch.rand(1, mask.shape[1]) < draw(st.sampled_from([1.0, 0.8, 0.5]))
        mask &= (torch.rand(mask.shape) < density) & rows & columns
        if name == without_weights:
            mask.fill_(False)
    return masks


@pytest.mark.slow
@settings(max_examples=120)
@given(st.data(), networks(), st.sampled_from(["outgoing", "incoming"]))
def test_any_compacted_network_gives_the_masked_networks_outputs(data, drawn, grouping):
    network, shape = drawn
    layout = layout_of(network, grouping)
    masks = data.draw(masks_for(layout, network))
    member = compact(network, layout, masks)
    assert_same_outputs(member, network, masks, torch.randn(5, *shape, dtype=torch.float64))

    parameters = dict(member.network.named_parameters())
    member.layout.check(parameters)
    for name, mask in member.masks.items():
        assert mask.shape == parameters[name].shape
        assert not parameters[name][~mask].any()
    assert member.cost.parameters <= sum(int(mask.sum()) for mask in masks.values())
    assert kept(member)["outputs"] == list(range(layout.space("outputs").size))


@settings(max_examples=50)
@given(st.data(), networks())
def test_compacting_a_compact_network_again_changes_nothing(data, drawn):
    network, _ = drawn
    layout = layout_of(network)
    once = compact(network, layout, data.draw(masks_for(layout, network)))
    twice = compact(once.network, once.layout, once.masks)
    assert twice.cost == once.cost
    inputs = torch.randn(5, once.cost.structure[0], dtype=torch.float64)
    assert_same_outputs(twice, once.network, once.masks, inputs)


def test_a_single_linear_layer_can_be_compacted():
    network = nn.Linear(4, 2).double()
    masks = {"weight": torch.tensor([[True, False, True, False], [True, False, False, False]])}
    member = compact(network, layout_of(network), masks)
    assert kept(member) == {"inputs": [0, 2], "outputs": [0, 1]}
    assert_same_outputs(member, network, masks, torch.randn(5, 4, dtype=torch.float64))


# --- which units go --------------------------------------------------------------------------


def compacted(network: nn.Module, **masks: list) -> tuple[Member, dict[str, Tensor]]:
    """`network` compacted by masks that are written out as `w0=..., w2=...`."""
    layout = layout_of(network)
    written = full_masks(layout, network)
    for name, rows in masks.items():
        written[f"{name.removeprefix('w')}.weight"] = torch.tensor(rows) > 0
    member = compact(network, layout, written)
    inputs = torch.randn(7, layout.space("inputs").size, dtype=torch.float64)
    assert_same_outputs(member, network, written, inputs)
    return member, written


class TestWhichUnitsGo:
    def test_with_all_weights_there_all_units_stay(self):
        member, _ = compacted(mlp(3, 4, 2))
        assert member.cost.structure == (3, 4, 2)
        assert member.inputs is None

    def test_an_input_nobody_reads_goes(self):
        member, _ = compacted(mlp(3, 2, 2), w0=[[1, 0, 1], [1, 0, 0]])
        assert kept(member) == {"inputs": [0, 2], "hidden1": [0, 1], "outputs": [0, 1]}

    def test_a_unit_without_outgoing_weights_goes(self):
        member, _ = compacted(mlp(2, 3, 2), w2=[[1, 0, 1], [1, 0, 0]])
        assert kept(member) == {"inputs": [0, 1], "hidden1": [0, 2], "outputs": [0, 1]}

    def test_what_only_a_removed_unit_reads_goes_too(self):
        # Input 1 → hidden unit 1 → nobody.
        member, _ = compacted(mlp(2, 2, 1), w0=[[1, 0], [0, 1]], w2=[[1, 0]])
        assert kept(member) == {"inputs": [0], "hidden1": [0], "outputs": [0]}

    def test_the_weights_of_what_stays_are_the_networks_own(self):
        network = mlp(3, 2, 2)
        member, _ = compacted(network, w0=[[1, 0, 1], [0, 0, 1]])
        expected = network[0].weight[:, [0, 2]] * torch.tensor([[1, 1], [0, 1]])
        assert torch.equal(member.network[0].weight, expected)
        assert torch.equal(member.masks["0.weight"], torch.tensor([[1, 1], [0, 1]]) > 0)
        assert torch.equal(member.network[2].weight, network[2].weight)

    def test_outputs_stay_even_without_any_weight(self):
        member, _ = compacted(mlp(2, 2, 3), w2=[[1, 1], [0, 0], [0, 0]])
        assert kept(member)["outputs"] == [0, 1, 2]

    def test_a_dead_layer_keeps_one_unit_and_the_outputs_are_their_biases(self):
        network = mlp(3, 4, 4, 2)
        member, _ = compacted(network, w2=[[0] * 4] * 4, w4=[[0] * 4] * 2)
        assert member.cost.structure == (1, 1, 1, 2)
        assert member.cost.parameters == 0
        assert member.cost.flops == 0
        outputs = member(torch.randn(5, 3, dtype=torch.float64))
        torch.testing.assert_close(outputs, network[4].bias.expand(5, 2))

    def test_the_network_itself_is_left_as_it_was(self):
        network = mlp(3, 4, 2)
        before = {name: p.detach().clone() for name, p in network.named_parameters()}
        compacted(network, w2=[[1, 0, 0, 1], [0, 0, 0, 0]])
        assert all(torch.equal(p, before[name]) for name, p in network.named_parameters())
        assert (network[0].out_features, network[2].in_features) == (4, 4)

    def test_layers_tell_their_new_sizes(self):
        member, _ = compacted(mlp(3, 4, 2), w0=[[1, 0, 1]] * 4, w2=[[1, 0, 0, 1]] * 2)
        assert str(member.network[0]) == "Linear(in_features=2, out_features=2, bias=True)"

    def test_groups_remember_their_original_sizes(self):
        member, _ = compacted(mlp(3, 4, 2), w0=[[1, 0, 1]] * 4, w2=[[1, 0, 0, 1]] * 2)
        assert member.cost.structure == (2, 2, 2)
        assert member.origin.group_sizes == {"outgoing inputs": 4, "outgoing hidden1": 2}


class TestConstants:
    """A unit that reads nothing emits `act(bias)`, which its readers' biases can take over."""

    def test_a_unit_without_incoming_weights_is_folded_into_the_next_biases(self):
        network = mlp(2, 2, 2, activation=nn.Sigmoid)
        set_parameters(
            network,
            {"0.bias": [0.0, 7.0], "2.weight": [[4.0, 1.0], [-6.0, 2.0]], "2.bias": [1.0, 1.0]},
        )
        member, _ = compacted(network, w0=[[0, 0], [1, 1]])
        assert kept(member)["hidden1"] == [1]
        # sigmoid(0) = 1/2: the biases gain 4/2 and −6/2.
        assert member.network[2].bias.tolist() == [3.0, -2.0]

    def test_chains_of_constants_fold(self):
        network = mlp(2, 2, 2, 1)
        set_parameters(
            network,
            {
                "0.bias": [3.0, 0.5],
                "2.weight": [[2.0, 5.0], [1.0, 1.0]],
                "2.bias": [1.0, 0.0],
                "4.weight": [[10.0, 1.0]],
                "4.bias": [0.25],
            },
        )
        member, _ = compacted(network, w0=[[0, 0], [1, 1]], w2=[[1, 0], [0, 1]])
        # relu(3)·2 + 1 = 7, of which relu is read with weight 10.
        assert kept(member) == {"inputs": [0, 1], "hidden1": [1], "hidden2": [1], "outputs": [0]}
        assert member.network[4].bias.tolist() == [70.25]

    def test_a_network_of_constants_is_folded_into_its_output_biases(self):
        network = mlp(2, 2, 1, activation=nn.Softplus)
        expected = network(torch.zeros(1, 2, dtype=torch.float64))
        with torch.no_grad():
            network[0].weight.zero_()
            expected = network(torch.zeros(1, 2, dtype=torch.float64)).squeeze(0)
        member, _ = compacted(network, w0=[[0, 0], [0, 0]])
        assert member.cost.structure == (1, 1, 1)
        assert member.cost.parameters == 0
        torch.testing.assert_close(member.network[2].bias, expected)

    def test_a_reader_without_bias_keeps_a_unit_that_emits_something(self):
        network = nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 1, bias=False))
        member, _ = compacted(network.double(), w0=[[0, 0], [1, 1]])
        assert kept(member)["hidden1"] == [0, 1]

    def test_a_reader_without_bias_is_relieved_of_a_unit_that_emits_zero(self):
        network = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False)).double()
        set_parameters(network, {"0.bias": [-1.0, 0.0, 1.0]})
        member, _ = compacted(network, w0=[[0, 0], [0, 0], [0, 0]])
        assert kept(member)["hidden1"] == [2]

    def test_a_unit_without_weights_and_bias_emits_what_its_activation_gives_at_zero(self):
        network = mlp(2, 2, 1, activation=nn.Sigmoid, bias=False)
        network[2] = nn.Linear(2, 1).double()
        set_parameters(network, {"2.weight": [[4.0, 1.0]], "2.bias": [0.0]})
        member, _ = compacted(network, w0=[[0, 0], [1, 1]])
        assert kept(member)["hidden1"] == [1]
        assert member.network[2].bias.tolist() == [2.0]

    def test_weights_that_are_zero_without_a_mask_count_as_absent(self):
        network = mlp(2, 2, 1)
        set_parameters(network, {"0.weight": [[0.0, 0.0], [1.0, 1.0]]})
        member, _ = compacted(network)
        assert kept(member)["hidden1"] == [1]


# --- layouts by hand -------------------------------------------------------------------------


class TestRecurrentNetwork:
    """A square matrix applied again and again: units read each other, and themselves."""

    def member(self, **masks: list) -> Member:
        network, layout = Recurrent(2, 4, 1), recurrent_layout(2, 4, 1)
        written = full_masks(layout, network)
        written |= {f"{name}.weight": torch.tensor(rows) > 0 for name, rows in masks.items()}
        member = compact(network, layout, written)
        inputs = torch.randn(6, 2, dtype=torch.float64)
        assert_same_outputs(member, network, written, inputs)
        return member

    def test_a_unit_that_only_reads_itself_goes(self):
        member = self.member(
            recurrent=[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
            output=[[1, 0, 1, 0]],
        )
        assert kept(member)["hidden"] == [0, 2]
        assert member.network.recurrent.weight.shape == (2, 2)

    def test_units_that_only_read_each_other_go(self):
        # 2 ← 3 ← 2 is a cycle nobody else reads, though both read unit 0 and the inputs.
        member = self.member(
            recurrent=[[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0]],
            output=[[1, 0, 0, 0]],
        )
        assert kept(member)["hidden"] == [0, 1]

    def test_what_a_live_unit_reads_is_live_however_far_back(self):
        # The output reads 0, which reads 1, which reads 2, which reads 3.
        member = self.member(
            recurrent=[[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]],
            output=[[1, 0, 0, 0]],
        )
        assert kept(member)["hidden"] == [0, 1, 2, 3]

    def test_an_input_read_only_by_a_dead_cycle_goes(self):
        member = self.member(
            reading=[[1, 0], [1, 0], [0, 1], [0, 1]],
            recurrent=[[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]],
            output=[[1, 1, 0, 0]],
        )
        assert kept(member) == {"inputs": [0], "hidden": [0, 1], "outputs": [0]}

    def test_a_unit_without_incoming_weights_is_no_constant_and_stays(self):
        member = self.member(
            reading=[[0, 0], [1, 1], [1, 1], [1, 1]],
            recurrent=[[0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]],
        )
        assert kept(member)["hidden"] == [0, 1, 2, 3]

    @settings(max_examples=60)
    @given(st.integers(0, 10_000), st.sampled_from([0.1, 0.2, 0.35, 0.6]))
    def test_outputs_are_equal_for_any_masks(self, seed, density):
        torch.manual_seed(seed)
        network, layout = Recurrent(3, 6, 2), recurrent_layout(3, 6, 2)
        masks = random_masks(layout, network, density)
        member = compact(network, layout, masks)
        assert_same_outputs(member, network, masks, torch.randn(4, 3, dtype=torch.float64))


class TestSkipConnection:
    def test_an_input_stays_while_one_of_its_two_ways_is_open(self):
        network, layout = Skip(3, 2, 1), skip_layout(3, 2, 1)
        masks = full_masks(layout, network)
        masks["hidden.weight"] = torch.tensor([[1, 0, 0], [1, 0, 0]]) > 0
        masks["skip.weight"] = torch.tensor([[0, 1, 0]]) > 0
        member = compact(network, layout, masks)
        assert kept(member)["inputs"] == [0, 1]
        assert_same_outputs(member, network, masks, torch.randn(4, 3, dtype=torch.float64))

    @settings(max_examples=60)
    @given(st.integers(0, 10_000), st.sampled_from([0.0, 0.15, 0.4, 0.8]))
    def test_outputs_are_equal_for_any_masks(self, seed, density):
        torch.manual_seed(seed)
        network, layout = Skip(4, 5, 2), skip_layout(4, 5, 2)
        masks = random_masks(layout, network, density)
        member = compact(network, layout, masks)
        assert_same_outputs(member, network, masks, torch.randn(4, 4, dtype=torch.float64))


class Flattened(nn.Module):
    """Three channels of 2×2 after a convolution, flattened: a channel is a block of 4 features."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 3, 2)
        self.output = nn.Linear(12, 2)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.output(torch.sigmoid(self.convolution(x)).flatten(1))


class TestBlocks:
    channels = Slot("output.weight", 1, "channels", Role.CONSUMER, block=4)
    layout = Layout(
        spaces=(
            Space("channels", 3, constant=torch.sigmoid),
            Space("outputs", 2, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("convolution.weight", 0, "channels", Role.PRODUCER),
            Slot("convolution.bias", 0, "channels", Role.BIAS),
            channels,
            Slot("output.weight", 0, "outputs", Role.PRODUCER),
            Slot("output.bias", 0, "outputs", Role.BIAS),
        ),
        families=(Family("channels", (channels,)),),
        matrices=(),
    )

    def setup_method(self) -> None:
        torch.manual_seed(3)
        self.network = Flattened()
        self.masks = full_masks(self.layout, self.network)
        self.inputs = torch.randn(5, 1, 3, 3, dtype=torch.float64)

    def test_a_channel_stays_while_one_of_its_features_is_read(self):
        self.masks["output.weight"][:, 4:8] = False
        self.masks["output.weight"][:, 8:11] = False
        member = compact(self.network, self.layout, self.masks)
        assert kept(member)["channels"] == [0, 2]
        assert member.network.output.weight.shape == (2, 8)
        assert_same_outputs(member, self.network, self.masks, self.inputs)

    def test_a_channel_without_kernel_is_folded_over_its_whole_block(self):
        self.masks["convolution.weight"][1] = False
        member = compact(self.network, self.layout, self.masks)
        assert kept(member)["channels"] == [0, 2]
        assert_same_outputs(member, self.network, self.masks, self.inputs)

    def test_with_no_channel_left_the_outputs_are_constant(self):
        self.masks["convolution.weight"].fill_(False)
        member = compact(self.network, self.layout, self.masks)
        assert kept(member)["channels"] == [0]
        assert_same_outputs(member, self.network, self.masks, self.inputs)


class Branches(nn.Module):
    """Two branches of different widths, computed by one matrix and read side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(3, 4)
        self.branches = nn.Linear(4, 5)
        self.output = nn.Linear(5, 2)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.sigmoid(self.hidden(x))
        return self.output(torch.sigmoid(self.branches(hidden)))


class TestOffsets:
    """Rows 0–1 of one matrix are the units of `left`, rows 2–4 those of `right`."""

    layout = Layout(
        spaces=(
            Space("inputs", 3, SpaceKind.INPUT),
            Space("hidden", 4, constant=torch.sigmoid),
            Space("left", 2, constant=torch.sigmoid),
            Space("right", 3, constant=torch.sigmoid),
            Space("outputs", 2, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("hidden.weight", 1, "inputs", Role.CONSUMER),
            Slot("hidden.weight", 0, "hidden", Role.PRODUCER),
            Slot("hidden.bias", 0, "hidden", Role.BIAS),
            Slot("branches.weight", 1, "hidden", Role.CONSUMER),
            Slot("branches.weight", 0, "left", Role.PRODUCER),
            Slot("branches.weight", 0, "right", Role.PRODUCER, offset=2),
            Slot("branches.bias", 0, "left", Role.BIAS),
            Slot("branches.bias", 0, "right", Role.BIAS, offset=2),
            Slot("output.weight", 1, "left", Role.CONSUMER),
            Slot("output.weight", 1, "right", Role.CONSUMER, offset=2),
            Slot("output.weight", 0, "outputs", Role.PRODUCER),
            Slot("output.bias", 0, "outputs", Role.BIAS),
        ),
        matrices=(),
    )

    def member(self, change: Callable[[dict[str, Tensor]], None]) -> Member:
        network = Branches()
        masks = full_masks(self.layout, network)
        change(masks)
        member = compact(network, self.layout, masks)
        assert_same_outputs(member, network, masks, torch.randn(5, 3, dtype=torch.float64))
        return member

    def test_units_of_both_spaces_go_and_the_rest_moves_up(self):
        def change(masks: dict[str, Tensor]) -> None:
            masks["output.weight"][:, [0, 3]] = False

        member = self.member(change)
        assert (kept(member)["left"], kept(member)["right"]) == ([1], [0, 2])
        right = member.layout.slots_of("right", Role.CONSUMER)[0]
        assert right.indices(2).flatten().tolist() == [1, 2]

    def test_a_unit_that_only_the_second_branch_reads_stays(self):
        def change(masks: dict[str, Tensor]) -> None:
            masks["branches.weight"][:2, 3] = False

        assert kept(self.member(change))["hidden"] == [0, 1, 2, 3]

    def test_a_unit_that_only_the_first_branch_reads_stays(self):
        def change(masks: dict[str, Tensor]) -> None:
            masks["branches.weight"][2:, 3] = False

        assert kept(self.member(change))["hidden"] == [0, 1, 2, 3]

    def test_a_constant_is_folded_into_the_biases_of_both_branches(self):
        def change(masks: dict[str, Tensor]) -> None:
            masks["hidden.weight"][2] = False

        assert kept(self.member(change))["hidden"] == [0, 1, 3]

    @settings(max_examples=60)
    @given(st.integers(0, 10_000), st.sampled_from([0.15, 0.3, 0.6]))
    def test_outputs_are_equal_for_any_masks(self, seed, density):
        torch.manual_seed(seed)
        network = Branches()
        masks = random_masks(self.layout, network, density)
        member = compact(network, self.layout, masks)
        assert_same_outputs(member, network, masks, torch.randn(4, 3, dtype=torch.float64))


class Tied(nn.Module):
    """An embedding that is also the output matrix: one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.output = nn.Linear(4, 5)
        self.output.weight = self.embedding.weight
        self.double()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(torch.tanh(self.embedding(tokens)))


def test_a_tied_parameter_stays_one_parameter():
    network = Tied()
    layout = Layout(
        spaces=(Space("embedding", 4), Space("outputs", 5, SpaceKind.OUTPUT)),
        slots=(
            Slot("embedding.weight", 1, "embedding", Role.CONSUMER),
            Slot("embedding.weight", 0, "outputs", Role.PRODUCER),
            Slot("output.bias", 0, "outputs", Role.BIAS),
        ),
        matrices=(),
    )
    masks = full_masks(layout, network)
    masks["embedding.weight"][:, 2] = False
    member = compact(network, layout, masks)
    assert kept(member)["embedding"] == [0, 1, 3]
    assert member.network.output.weight is member.network.embedding.weight
    assert_same_outputs(member, network, masks, torch.arange(5))


def test_a_parameter_without_a_mask_keeps_its_weights():
    network = mlp(2, 2, 1, activation=nn.Sigmoid)
    masks = {"0.weight": torch.zeros(2, 2, dtype=torch.bool)}
    member = compact(network, layout_of(network), masks)
    assert_same_outputs(member, network, masks, torch.randn(5, 2, dtype=torch.float64))
    assert member.cost.parameters == 0


def test_masking_zeroes_the_weights_outside_the_masks_of_a_copy():
    network = mlp(2, 2)
    before = network[0].weight.detach().clone()
    copy = masked(network, {"0.weight": torch.tensor([[1, 0], [0, 1]]) > 0})
    assert torch.equal(copy[0].weight.detach(), before * torch.eye(2))
    assert torch.equal(copy[0].bias, network[0].bias)
    assert torch.equal(network[0].weight, before)


@pytest.mark.parametrize("grouping", ["outgoing", "incoming"])
def test_a_member_that_keeps_everything_is_the_network(grouping):
    network = mlp(3, 4, 2)
    member = Member.dense(network, layout_of(network, grouping))
    inputs = torch.randn(5, 3, dtype=torch.float64)
    assert torch.equal(member(inputs), network(inputs))
    assert member.cost.parameters == 3 * 4 + 4 * 2


@pytest.mark.parametrize(
    "masks",
    [
        {"0.wait": torch.ones(2, 2, dtype=torch.bool)},
        {"0.bias": torch.ones(2, dtype=torch.bool)},
        {"0.weight": torch.ones(3, 2, dtype=torch.bool)},
    ],
)
def test_a_mask_that_fits_no_weight_is_refused(masks):
    network = mlp(2, 2, 1)
    with pytest.raises(InputError, match="fits no weight"):
        compact(network, layout_of(network), masks)


def test_masks_are_true_or_false():
    network = mlp(4, 5, 3)
    with pytest.raises(InputError, match=r"of type torch\.float32, not torch\.bool"):
        compact(network, layout_of(network), {"0.weight": torch.ones(5, 4)})
