"""The verdict: when the promise counts as kept, and how it is said."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from scenarios import mlp
from sparsemble.ensemble import Difference, Ensemble
from sparsemble.ensemble.verdict import Verdict, judge
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification


def verdict(**changes) -> Verdict:
    """An ensemble with a lower NLL and about the same error, at the price of one network."""
    fields = {
        "metrics": list(Classification.metrics),
        "log_score": "nll",
        "differences": {
            "error": Difference(own=0.02, other=0.019, low=-0.001, high=0.003),
            "nll": Difference(own=0.05, other=0.06, low=-0.015, high=-0.005),
            "ece": Difference(own=0.01, other=0.02, low=-0.02, high=0.001),
            "brier": Difference(own=0.1, other=0.1, low=-0.01, high=0.01),
        },
        "members": 2,
        "parameters": 0.7,
        "flops": 0.99,
        "prediction": {1: 1.5, 1000: 0.95},
        "threads": 2,
        "training": 1.8,
    }
    return Verdict(**(fields | changes))


def with_difference(key: str, **values: float) -> dict[str, Difference]:
    found = verdict().differences
    return {**found, key: found[key].model_copy(update=values)}


def test_it_is_kept_if_the_score_is_lower_the_error_not_clearly_higher_and_the_cost_no_more():
    assert verdict().is_kept


@pytest.mark.parametrize(
    "changes",
    [
        {"differences": with_difference("nll", own=0.07)},
        {"differences": with_difference("error", low=0.0005)},
        {"flops": 1.01},
    ],
)
def test_it_is_not_kept_if_any_of_these_fails(changes):
    assert not verdict(**changes).is_kept


def test_it_is_said_in_one_line_with_every_figure_and_its_uncertainty():
    assert verdict().text == (
        "The promise is kept: 2 members against one dense network: Error % 2.00 against 1.90 "
        "(difference -0.10 to 0.30, within chance); NLL 0.0500 against 0.0600 (difference -0.0150 "
        "to -0.0050); Calibration error 0.0100 against 0.0200 (difference -0.0200 to 0.0010, "
        "within chance); parameters 0.70×, FLOPs 0.99×, prediction time 1.50× (batch 1), 0.95× "
        "(batch 1000), training time 1.80×"
    )
    assert verdict(members=1, flops=2.0).text.startswith(
        "The promise is NOT kept (more FLOPs): one averaged network against"
    )


def test_costs_and_figures_are_those_of_the_ensembles():
    torch.manual_seed(0)
    network = mlp(4, 5, 2).float()
    task = Classification(num_classes=2, input_shape=(4,))
    member = Member.dense(network, layout_of(network))
    one, two = Ensemble([member], task), Ensemble([member, member], task)
    data = torch.randn(30, 4), torch.randint(2, (30,))
    found = judge(two, one, data, seconds=(6.0, 3.0))
    assert (found.members, found.flops, found.parameters, found.training) == (2, 2.0, 2.0, 2.0)
    assert list(found.prediction) == [1, 30]
    assert found.differences["nll"].own == pytest.approx(one.evaluate(data)["nll"])
    assert not found.is_kept


def test_each_reads_columns_in_an_order_of_its_own():
    torch.manual_seed(0)
    rows, classes = torch.randn(40, 3), torch.randint(2, (40,))
    given = pd.DataFrame(rows.numpy(), columns=["a", "b", "c"])
    ensembles = []
    for names in (["a", "b", "c"], ["c", "a", "b"]):
        network = mlp(3, 5, 2).float()
        task = Classification(num_classes=2, feature_names=tuple(names), input_shape=(3,))
        ensembles.append(Ensemble([Member.dense(network, layout_of(network))], task))
    found = judge(*ensembles, (given, classes)).differences["nll"]
    assert (found.own, found.other) == pytest.approx(
        [ensemble.evaluate((given, classes))["nll"] for ensemble in ensembles]
    )
