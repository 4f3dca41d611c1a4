"""Budgets: what they limit, in shares of a dense network."""

from __future__ import annotations

import pytest

from scenarios import mlp
from sparsemble.ensemble import Budget
from sparsemble.ensemble.cost import ensemble_cost
from sparsemble.layouts import layout_of
from sparsemble.members import Member

DENSE = mlp(10, 20, 5)
"""300 weights, 600 FLOPs, 25 biases."""


def cost(count: int = 1):
    return ensemble_cost([Member.dense(DENSE, layout_of(DENSE))] * count)


def test_a_budget_names_what_exceeds_it():
    assert Budget(flops=1.0, parameters=1.0, bytes=1300).exceeded_by(cost()) == []
    assert Budget(flops=1.5, parameters=3.0).exceeded_by(cost(2)) == ["FLOPs 2×, allowed 1.5×"]
    assert Budget(bytes=2000).exceeded_by(cost(2)) == ["bytes 2,600, allowed 2,000"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [({}, "needs a limit"), ({"flops": 0}, "greater than 0"), ({"flops": float("inf")}, "finite")],
)
def test_a_budget_that_limits_nothing_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Budget(**fields)


def test_a_latency_alone_lets_hope_for_as_many_flops():
    assert Budget(latency=0.8).share_of_flops == 0.8
    assert Budget(latency=0.8, flops=0.5).share_of_flops == 0.5
    assert Budget(bytes=10).share_of_flops is None
