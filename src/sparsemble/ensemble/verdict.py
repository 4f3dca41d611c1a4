"""The verdict: is the ensemble better than one dense network, at which cost, and how sure is that?

The promise is kept if the ensemble's log score is lower than that of a dense network trained on the
same data in the same way, if its first metric is not clearly worse, and if it takes no more FLOPs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
from pydantic import Field, model_validator

from sparsemble.ensemble.comparison import Difference, compare
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.timing import prediction_times
from sparsemble.settings import Settings
from sparsemble.store import read_json
from sparsemble.tasks import Metric


class Verdict(Settings):
    """An ensemble beside one dense network, on data that neither has seen."""

    metrics: list[Metric] = Field(min_length=1)
    log_score: str
    differences: dict[str, Difference]
    """Of every metric, with the interval that holds it in 95 of 100 cases."""
    members: int
    parameters: float
    """Of the dense network's; so are the other costs."""
    flops: float
    prediction: dict[int, float]
    """Measured time of a prediction, by the number of examples at a time."""
    threads: int
    """With which it was measured."""
    training: float | None = None
    """Time of training."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        keys = {metric.key for metric in self.metrics}
        if self.log_score not in keys or not keys <= set(self.differences):
            raise ValueError("the differences are not those of all metrics")
        return self

    @property
    def is_kept(self) -> bool:
        """Does the ensemble predict better than the dense network, for its price?"""
        return not self._failures()

    @property
    def style(self) -> str:
        """Its colour on a terminal."""
        return "green" if self.is_kept else "yellow"

    def _failures(self) -> list[str]:
        """What the promise fails by."""
        score, first = self.differences[self.log_score], self.metrics[0]
        error = self.differences[first.key]
        worse = error.low > 0 if first.better == "lower" else error.high < 0
        title = next(metric.title for metric in self.metrics if metric.key == self.log_score)
        failures = {
            f"{title} is not lower": score.own >= score.other,
            f"{first.title} is clearly worse": worse and first.key != self.log_score,
            "more FLOPs": self.flops > 1,
        }
        return [failure for failure, holds in failures.items() if holds]

    @property
    def text(self) -> str:
        """All of it in one line."""
        shown = [metric for metric in self.metrics if metric.shown and metric.better != "neither"]
        figures = "; ".join(self._figure(metric) for metric in shown)
        times = ", ".join(f"{ratio:.2f}× (batch {n})" for n, ratio in self.prediction.items())
        training = "" if self.training is None else f", training time {self.training:.2f}×"
        failures = ", ".join(self._failures())
        begun = f"The promise is NOT kept ({failures})" if failures else "The promise is kept"
        who = "one averaged network" if self.members == 1 else f"{self.members} members"
        return (
            f"{begun}: {who} against one dense network: {figures}; parameters "
            f"{self.parameters:.2f}×, FLOPs {self.flops:.2f}×, prediction time {times}{training}"
        )

    def _figure(self, metric: Metric) -> str:
        found = self.differences[metric.key]
        sure = "" if found.is_clear else ", within chance"
        bounds = f"{metric.text(found.low)} to {metric.text(found.high)}"
        own, other = metric.text(found.own), metric.text(found.other)
        return f"{metric.title} {own} against {other} (difference {bounds}{sure})"


def read_verdict(path: Path) -> Verdict | None:
    """The verdict that a run keeps, if it does."""
    if not path.is_file():
        return None
    verdict: Verdict = Verdict.read_back(read_json(path), path)
    return verdict


def judge(
    ensemble: Ensemble,
    dense: Ensemble,
    data: Any,
    *,
    seconds: tuple[float, float] | None = None,
) -> Verdict:
    """Compare an ensemble with a dense network.

    Args:
        ensemble: What was learned.
        dense: One network that was not pruned.
        data: What neither was trained on.
        seconds: How long training took, of the one and of the other.
    """
    cost = ensemble.cost
    own, other = (one.task.held(data) for one in (ensemble, dense))
    return Verdict(
        metrics=list(ensemble.task.metrics),
        log_score=ensemble.task.log_score,
        differences=compare(ensemble, dense, data),
        members=len(ensemble),
        parameters=cost.parameters_ratio,
        flops=cost.flops_ratio,
        prediction=prediction_times(ensemble, dense, own, other),
        threads=torch.get_num_threads(),
        training=None if seconds is None else seconds[0] / max(seconds[1], 1e-9),
    )
