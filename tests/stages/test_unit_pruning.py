"""Units first: what is left is within the budget, and what went was worth the least."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from scenarios import mlp, model
from sparsemble.ensemble.cost import ensemble_cost
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact, compact_further, masked
from sparsemble.stages.pruning import PruneSettings, Share, within
from sparsemble.stages.unit_pruning import least_flops, prune_units
from sparsemble.structure import measure


def parameters(network: nn.Module) -> dict[str, torch.Tensor]:
    return dict(network.named_parameters())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(2, 12), min_size=3, max_size=5), st.floats(0.05, 1), st.integers(0, 99))
def test_what_is_left_of_any_network_takes_at_most_the_flops_allowed(widths, share, seed):
    torch.manual_seed(seed)
    network = mlp(*widths)
    layout = layout_of(network)
    dense = Member.dense(network, layout).cost.flops
    least = least_flops(parameters(network), layout)
    limit = max(share * dense, least)
    masks = prune_units(parameters(network), layout, flops=limit)
    member = compact(network, layout, masks)
    assert member.cost.flops <= limit
    inputs = torch.randn(4, widths[0], dtype=torch.float64)
    torch.testing.assert_close(member(inputs), masked(network, masks)(inputs), atol=1e-10, rtol=0)


def test_units_go_by_what_they_are_worth_per_flop_saved():
    """A hidden unit saves (3 + 1)·2 FLOPs, an input 4·2: of equal worth they go alike."""
    network = mlp(3, 4, 1)
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[9.0, 1.0, 5.0]] * 4))
        network[2].weight.copy_(torch.tensor([[8.0, 2.5, 9.0, 7.0]]))
    masks = prune_units(parameters(network), layout_of(network), flops=12)
    # Squared norms: inputs 324, 4, 100; units 64, 6.25, 81, 49. Two inputs and two units take
    # 2·2·2 + 2·2 = 12 FLOPs: the second input goes, then the second unit, then the fourth.
    assert masks["2.weight"].tolist() == [[True, False, True, False]]
    assert masks["0.weight"].any(0).tolist() == [True, False, True]


def test_weights_inside_go_by_magnitude_once_units_have_gone():
    torch.manual_seed(0)
    network = mlp(10, 8, 3)
    layout = layout_of(network)
    units = prune_units(parameters(network), layout, flops=100)
    both = prune_units(parameters(network), layout, flops=100, weights=30)
    assert sum(int(mask.sum()) for mask in both.values()) == 30
    left = torch.cat([p[units[n]].abs() for n, p in parameters(network).items() if n in units])
    kept = torch.cat([p[both[n]].abs() for n, p in parameters(network).items() if n in both])
    assert torch.equal(kept.sort().values, left.sort().values[-30:])


def test_without_a_limit_everything_stays():
    network = mlp(4, 5, 2)
    masks = prune_units(parameters(network), layout_of(network))
    assert all(bool(mask.all()) for mask in masks.values())


def test_a_budget_that_no_network_can_meet_is_refused_with_the_smallest_that_can():
    network = mlp(4, 5, 3)
    with pytest.raises(InputError, match=r"7 FLOPs is too small: .* the network takes 8"):
        prune_units(parameters(network), layout_of(network), flops=7)


@pytest.mark.parametrize("grouping", ["iss", "tied", "untied"])
@pytest.mark.parametrize("shared", [False, True])
def test_units_of_lstm_layers_go_with_all_that_is_theirs(grouping, shared):
    torch.manual_seed(0)
    network = model(6, 4, shared=shared)
    layout = layout_of(network, grouping)
    dense = Member.dense(network, layout)
    smaller = within(dense, Share(flops=0.5))
    assert smaller.cost.flops <= 0.5 * dense.cost.flops
    assert smaller.layout.outputs.size == layout.outputs.size
    masks = prune_units(parameters(network), layout, flops=0.5 * dense.cost.flops)
    words = torch.randint(7, (5, 2))
    expected = masked(network, masks)(words)[0]
    torch.testing.assert_close(smaller(words)[0], expected, atol=1e-10, rtol=0)


def test_a_member_pruned_further_still_knows_the_network_it_came_from():
    torch.manual_seed(1)
    network = mlp(8, 9, 7, 3)
    layout = layout_of(network)
    first = prune_units(parameters(network), layout, flops=200)
    member = compact(network, layout, first)
    masks = prune_units(parameters(member.network), member.layout, flops=100, weights=35)
    smaller = compact_further(member, masks)
    inputs = torch.randn(6, 8, dtype=torch.float64)
    assert smaller.origin.sizes == member.origin.sizes
    assert smaller.origin.group_sizes == member.origin.group_sizes
    assert smaller.cost == measure(smaller.layout, smaller.masks)
    assert smaller.cost.parameters <= 35
    kept = {name: units.tolist() for name, units in smaller.origin.units.items()}
    for name, units in member.origin.units.items():
        assert set(kept[name]) <= set(units.tolist())
    direct = compact(member.network, member.layout, masks)
    picked = inputs[:, member.origin.units[layout.inputs.name]]
    torch.testing.assert_close(smaller(inputs), direct(picked), atol=1e-10, rtol=0)


def test_rounds_fall_from_three_times_the_share_to_the_share():
    shares = PruneSettings(flops=1.0, parameters=0.7, steps=4).shares(members=2)
    assert [share.flops for share in shares] == pytest.approx([1.5, 1.04, 0.721, 0.5], abs=1e-3)
    assert shares[-1] == Share(0.5, 0.35)
    assert PruneSettings(flops=0.3, per="member").shares(members=5) == [Share(0.3)]


@pytest.mark.parametrize("flops", [None, 0.5])
def test_members_within_bytes_count_their_own_biases(flops):
    torch.manual_seed(0)
    members = [Member.dense(own, layout_of(own)) for own in (mlp(10, 20, 5), mlp(10, 20, 5))]
    (share,) = PruneSettings(bytes=1000, flops=flops).shares(members=2)
    cost = ensemble_cost([within(member, share) for member in members])
    assert 500 < cost.bytes <= 1000  # units that nothing reads any more go with their biases
    assert flops is None or cost.flops_ratio <= flops


def test_bytes_that_do_not_hold_the_biases_are_refused():
    dense = Member.dense(mlp(10, 20, 5), layout_of(mlp(10, 20, 5)))  # 25 biases
    assert not Share(bytes=103).suffices(dense)
    with pytest.raises(InputError, match=r"103 bytes is too small .* biases alone take 100"):
        within(dense, Share(bytes=103))
    assert Share(bytes=104).suffices(dense)
    assert within(dense, Share(bytes=104)).cost.parameters <= 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "give a sparsity, or a budget"),
        ({"sparsity": 0.5, "flops": 1.0}, "give a sparsity, or a budget"),
        ({"sparsity": 0.5, "steps": 3}, "steps = 3 is for a budget"),
        ({"flops": 1.0, "scope": "layer"}, "goes with a sparsity"),
        ({"flops": 0.0}, "greater than 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PruneSettings(**fields)
