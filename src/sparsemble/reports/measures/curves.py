"""Figures 4a and 4b: what every stage made of the networks, alone and averaged.

The stages are looked at after the fact: the saved samples as they are, the same pruned again by the
recipe, and the final members. For each there is the metric of every network by itself and of the
first one, two, … of them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.members import Member
from sparsemble.reports.measures.summary import column_title
from sparsemble.reports.opening import FinishedRun
from sparsemble.tasks import Evaluation, Metric
from sparsemble.tasks.scoring import figures_of

StageName = Literal["sampled", "pruned", "retrained"]

_METRICS = 2
"""Metrics that are drawn, the first ones of the task."""
_WORK = 2e12
"""Floating point operations to spend at most: about a minute of one core."""


@dataclass(frozen=True)
class StageCurve:
    """One stage: each network by itself, and the first k of them together."""

    stage: StageName
    alone: tuple[float, ...]
    together: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """A metric over the number of networks, for the stages the run went through."""

    metric: Metric
    column: str
    """Of the summary's table that holds the same metric."""
    measured_on: str
    whole: bool
    """Is that all of the data that the result was measured on?"""
    guessed: float | None
    """The metric of guessing by how frequent targets are in the training data, if that is known."""
    stages: tuple[StageCurve, ...]

    @property
    def final(self) -> StageCurve:
        """The members of the ensemble."""
        return self.stages[-1]

    def of(self, stage: StageName) -> StageCurve | None:
        """One stage, if the run has it."""
        return next((curve for curve in self.stages if curve.stage == stage), None)


def final_stage(run: FinishedRun) -> StageName:
    """What the members of the ensemble are."""
    if run.result.is_retrained:
        return "retrained"
    return "sampled" if run.recipe.prune is None else "pruned"


def stage_curves(run: FinishedRun) -> tuple[Curves, ...]:
    """The first metrics of the task on data that the networks were not trained on."""
    held = _affordable(run)
    metrics = [metric for metric in run.task.metrics if metric.shown][:_METRICS]
    found: dict[str, list[StageCurve]] = {metric.key: [] for metric in metrics}
    targets = torch.empty(0)
    for stage, members in _stages(run):
        known: list[Tensor] = []
        alone, together = [], []
        for member in members:
            own, targets = evidence_of(Ensemble([member], run.task), held)
            known.append(own)
            alone.append(figures_of(run.task, own, targets))
            together.append(figures_of(run.task, torch.cat(known), targets))
        for metric in metrics:
            found[metric.key].append(
                StageCurve(
                    stage,
                    tuple(metric.factor * figures[metric.key] for figures in alone),
                    tuple(metric.factor * figures[metric.key] for figures in together),
                )
            )
    marginal = run.task.marginal(run.split.train, targets)
    guessed = None if marginal is None else figures_of(run.task, marginal, targets)
    return tuple(
        Curves(
            metric,
            column_title(metric, run.shown_part, run.result),
            held.name,
            held is run.held,
            None if guessed is None else metric.factor * guessed[metric.key],
            tuple(found[metric.key]),
        )
        for metric in metrics
    )


def _stages(run: FinishedRun) -> Iterator[tuple[StageName, Iterator[Member]]]:
    """The members at the end of each stage, made when they are looked at."""
    last = final_stage(run)
    if run.sample_files and last != "sampled":
        yield "sampled", map(run.fitted.dense, run.samples())
    if run.sample_files and last == "retrained" and run.recipe.prune is not None:
        yield "pruned", map(run.pruned_member, run.samples())
    yield last, iter(run.ensemble)


def _affordable(run: FinishedRun) -> Evaluation:
    """As much of the data as all networks of all stages can read for the work allowed."""
    networks = len(run.ensemble) * (1 + 2 * bool(run.sample_files))
    most = max(1000, round(_WORK / (run.ensemble.cost.dense_flops * networks)))
    if run.held.count <= most:
        return run.held
    read, kept = 0, []
    for inputs, targets in run.held.batches():
        kept.append((inputs, targets))
        read += targets.numel()
        if read >= most:
            break
    name = f"{run.held.name} ({read:,} of {run.held.count:,})"
    return replace(run.held, name=name, count=read, batches=lambda: iter(kept))
