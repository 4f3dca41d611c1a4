"""Scores: how good one, two, … members are together and each alone, added up batch by batch.

A task turns predictions into *statistics*, numbers per example whose means are all that its metrics
need; so a data set of any length is scored in one pass, and the curve over the number of members
comes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from pydantic import Field
from torch import Tensor

from sparsemble.settings import Settings

if TYPE_CHECKING:
    from sparsemble.tasks.task import Task


class Score(Settings):
    """Every metric of a task on one data set."""

    count: int
    """Examples, or tokens of a text."""
    curve: dict[str, list[float]]
    """Of the first one, two, … members together."""
    members: dict[str, list[float]]
    """Of each member alone."""
    diversity: float = 0.0
    """How differently the members predict, as their task measures it."""
    reference: dict[str, float] = Field(default_factory=dict)
    """What the source of the data would reach itself, where that is known."""
    notes: list[str] = Field(default_factory=list)
    """What a reader of the figures should know about the data."""

    @property
    def metrics(self) -> dict[str, float]:
        """Of all members together."""
        return {key: values[-1] for key, values in self.curve.items()}

    def __getitem__(self, key: str) -> float:
        """One metric of all members together."""
        return self.curve[key][-1]

    def __str__(self) -> str:
        count = len(next(iter(self.members.values())))
        who = f"{count} members" if count > 1 else "1 member"
        figures = ", ".join(f"{key} {value:.4g}" for key, value in self.metrics.items())
        return f"{figures} ({who} on {self.count:,})"

    __repr__ = __str__

    def of_a_member(self, key: str) -> float:
        """One metric of a single member, on average."""
        return fmean(self.members[key])

    def best_member(self, key: str) -> int:
        """Which member alone has the lowest value of a metric."""
        own = self.members[key]
        return own.index(min(own))


class Scorer:
    """Adds up a task's statistics.

    >>> from sparsemble.tasks import Classification
    >>> import torch
    >>> scorer = Scorer(Classification(class_names=("a", "b")))
    >>> scorer.update(torch.tensor([[[0.9, 0.1]], [[0.2, 0.8]]]), torch.tensor([0]))
    >>> scorer.compute().curve["error"], scorer.compute().members["error"]
    ([0.0, 0.0], [0.0, 1.0])
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._count = 0
        self._together: list[dict[str, Tensor]] = []
        self._alone: list[dict[str, Tensor]] = []
        self._diversity = 0.0

    def update(self, evidence: Tensor, targets: Tensor) -> None:
        """Take a batch in: the members' evidence, `(members, examples, …)`, and the truth."""
        task = self._task
        if evidence.shape[1] == 0:
            return
        targets = targets.to(evidence.device)
        for number in range(len(evidence)):
            for totals, part in (
                (self._together, evidence[: number + 1]),
                (self._alone, evidence[number : number + 1]),
            ):
                if number == len(totals):
                    totals.append({})
                _add(totals[number], task.statistics(task.mix(part), targets))
        examples = evidence.shape[1]
        self._count += examples
        self._diversity += float(task.diversity(evidence).double().sum())

    def compute(
        self, *, reference: Mapping[str, float] | None = None, notes: list[str] | None = None
    ) -> Score:
        """The metrics of everything taken in so far."""
        count = max(self._count, 1)
        return Score(
            count=self._count,
            curve=self._metrics(self._together),
            members=self._metrics(self._alone),
            diversity=self._diversity / count,
            reference=dict(reference or {}),
            notes=notes or [],
        )

    def _metrics(self, totals: list[dict[str, Tensor]]) -> dict[str, list[float]]:
        rows = [
            self._task.figures({key: total / self._count for key, total in one.items()})
            for one in totals
        ]
        return {metric.key: [row[metric.key] for row in rows] for metric in self._task.metrics}


def _add(totals: dict[str, Tensor], statistics: Mapping[str, Tensor]) -> None:
    for key, values in statistics.items():
        total = values.double().sum(0)
        totals[key] = totals[key] + total if key in totals else total


def figures_of(
    task: Task, evidence: Tensor, targets: Tensor, weights: Tensor | None = None
) -> dict[str, float]:
    """The metrics of members together, from all their evidence at once.

    Args:
        task: What they predict.
        evidence: Of every member, for every example.
        targets: The answers.
        weights: How much each example counts; by default all alike.
    """
    statistics = task.statistics(task.mix(evidence), targets.to(evidence.device))
    if weights is not None:
        share = (weights / weights.mean()).double().to(evidence.device)
        statistics = {
            key: values * share.view(-1, *[1] * (values.ndim - 1))
            for key, values in statistics.items()
        }
    return task.figures({key: values.double().mean(0) for key, values in statistics.items()})
