"""The demonstration: ensembles for the price of one dense network, beside it, on digits.

Every repeat learns from another half of the images and measures on the rest, so that the spread of
the differences says how sure they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev

from rich.console import Console

from sparsemble.data import digits
from sparsemble.ensemble import EnsembleCost
from sparsemble.learning import learn
from sparsemble.progress.showing import shown
from sparsemble.recipes import load_recipe
from sparsemble.results.tables import Table
from sparsemble.tasks import Metric, Score

_REPEATS = 10


@dataclass(frozen=True)
class Repeat:
    """A dense network and an ensemble, learned from the same examples and measured on others."""

    dense: Score
    ours: Score
    cost: EnsembleCost

    def apart(self, metric: Metric) -> float:
        """How much higher a metric of the ensemble is."""
        return self.ours[metric.key] - self.dense[metric.key]


def demonstrate(console: Console, repeats: int = _REPEATS) -> tuple[Table, str]:
    """Learn again and again; what came out as a table, and in a sentence."""
    recipe = load_recipe("digits-budget")
    assert recipe.network is not None
    network = partial(recipe.network.build, 64, 10)
    found = []
    for seed in range(repeats):
        train, test = digits(seed)
        own = recipe.model_copy(update={"seed": seed})
        with shown(console, f"repeat {seed + 1} of {repeats}") as callback:
            learned = learn(network, train, own, baseline=1, callback=callback, progress=False)
        assert learned.dense is not None
        dense, ours = (each.ensemble.evaluate(test) for each in (learned.dense, learned))
        found.append(Repeat(dense, ours, learned.ensemble.cost))
    metrics = [metric for metric in learned.ensemble.task.metrics if metric.shown]
    return comparison(found, metrics), in_words(found, metrics)


def comparison(repeats: Sequence[Repeat], metrics: Sequence[Metric]) -> Table:
    """The dense networks and the ensembles on average, and how sure their difference is."""
    dense = [metric.text(fmean(r.dense[metric.key] for r in repeats)) for metric in metrics]
    ours = [metric.text(fmean(r.ours[metric.key] for r in repeats)) for metric in metrics]
    apart = [_difference(repeats, metric) for metric in metrics]
    parameters = max(repeat.cost.parameters_ratio for repeat in repeats)
    flops = max(repeat.cost.flops_ratio for repeat in repeats)
    rows = (
        ("One dense network", *dense, "1.00×", "1.00×"),
        ("Sparse structured ensemble", *ours, f"{parameters:.2f}×", f"{flops:.2f}×"),
        ("difference", *apart, "", ""),
    )
    header = ("", *(metric.title for metric in metrics), "Parameters", "FLOPs")
    title = f"Digits: 900 images to learn from, 897 to test on, mean of {len(repeats)} such halves"
    return Table(title, header, rows)


def in_words(repeats: Sequence[Repeat], metrics: Sequence[Metric]) -> str:
    """Is the promise kept, as far as the repeats can tell?"""
    score = next(metric for metric in metrics if metric.key == "nll")
    ahead = sum(repeat.apart(score) < 0 for repeat in repeats)
    return (
        f"For the price of one network: {score.name} differs by {_difference(repeats, score)} "
        f"(standard error), and is lower in {ahead} of {len(repeats)} repeats."
    )


def _difference(repeats: Sequence[Repeat], metric: Metric) -> str:
    """The mean difference and its standard error."""
    apart = [repeat.apart(metric) for repeat in repeats]
    error = stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    sign = "+" if fmean(apart) > 0 else ""
    return f"{sign}{metric.text(fmean(apart))} ± {metric.text(error)}"
