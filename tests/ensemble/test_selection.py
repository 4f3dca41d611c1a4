"""Members at hand, and the few of them that a budget is best spent on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsemble.ensemble import Budget, Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification

TASK = Classification(num_classes=2, input_shape=(2,))


def member(*odds: float) -> Member:
    """Class 1 with log-odds `odds·x`."""
    network = nn.Sequential(nn.Linear(2, 2, bias=False)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[0.0, 0.0], list(odds)]))
    return Member.dense(network, layout_of(network))


@pytest.fixture
def ensemble() -> Ensemble:
    """One that knows nothing, one that is wrong, and two that each know half of the examples."""
    return Ensemble([member(0, 0), member(-4, -4), member(4, 0), member(0, 4)], TASK)


DATA = torch.eye(2).double().repeat(10, 1), torch.ones(20, dtype=torch.long)


def test_a_slice_is_an_ensemble_of_the_same_members(ensemble):
    few = ensemble[1:3]
    assert isinstance(few, Ensemble)
    assert list(few) == [ensemble[1], ensemble[2]]
    assert few.task == ensemble.task
    assert isinstance(ensemble[-1], Member)
    with pytest.raises(InputError, match="at least one member"):
        ensemble[4:]


def test_those_are_taken_that_know_what_the_others_do_not(ensemble):
    chosen = ensemble.select(DATA, Budget(flops=4.0))
    assert set(chosen) == {ensemble[2], ensemble[3]}


def test_no_more_are_taken_than_the_budget_allows(ensemble):
    assert len(ensemble.select(DATA, Budget(flops=1.0))) == 1
    assert len(ensemble.select(DATA, Budget(bytes=2 * 16))) == 2


def test_a_budget_below_every_member_is_refused_with_the_smallest(ensemble):
    with pytest.raises(InputError, match="the smallest takes 1× FLOPs, 1× parameters and 16 bytes"):
        ensemble.select(DATA, Budget(flops=0.5))
