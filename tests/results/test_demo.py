"""The demonstration's table."""

from __future__ import annotations

import pytest
from rich.console import Console

from sparsemble.ensemble.cost import EnsembleCost
from sparsemble.results.demo import Repeat, comparison, demonstrate, in_words
from sparsemble.tasks import Classification, Score

METRICS = [metric for metric in Classification(num_classes=2).metrics if metric.shown]


def repeat(dense: float, ours: float) -> Repeat:
    def score(nll: float) -> Score:
        figures = {"error": 0.03, "nll": nll, "ece": 0.01, "brier": 0.1}
        return Score(count=10, curve={k: [v] for k, v in figures.items()}, members={})

    cost = EnsembleCost(
        members=2, parameters=60, flops=180, bytes=0, dense_parameters=100, dense_flops=200
    )
    return Repeat(score(dense), score(ours), cost)


def test_differences_come_with_their_standard_error():
    found = [repeat(0.12, 0.10), repeat(0.10, 0.09), repeat(0.11, 0.11)]
    dense, ours, apart = comparison(found, METRICS).rows
    assert dense[1:3] == ("3.00", "0.1100")
    assert ours[2:] == ("0.1000", "0.0100", "0.60×", "0.90×")
    assert apart[1:3] == ("0.00 ± 0.00", "-0.0100 ± 0.0058")
    assert in_words(found, METRICS) == (
        "For the price of one network: NLL differs by -0.0100 ± 0.0058 (standard error), and is "
        "lower in 2 of 3 repeats."
    )


@pytest.mark.slow
def test_a_repeat_learns_within_the_budget(short_recipes, monkeypatch):
    monkeypatch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
    table, _ = demonstrate(Console(quiet=True), repeats=1)
    assert [float(cell.rstrip("×")) <= 1 for cell in table.rows[1][-2:]] == [True, True]
