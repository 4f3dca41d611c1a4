"""Quality against cost: the ensemble, parts of it, and dense networks, on the same data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparsemble.ensemble import Ensemble
from sparsemble.learning.choosing import COUNTS
from sparsemble.reports.opening import FinishedRun
from sparsemble.runs.opening import open_ensemble
from sparsemble.tasks import Metric


@dataclass(frozen=True)
class Price:
    """What some networks together cost, as shares of one dense network, and how good they are.

    `figures` belong to the metrics of `Prices`; `kind` is whose networks they are.
    """

    name: str
    kind: str
    flops: float
    parameters: float
    figures: tuple[float, ...]


@dataclass(frozen=True)
class Prices:
    """All that a run can be set beside; the metrics are the log score and the first."""

    metrics: tuple[Metric, ...]
    found: tuple[Price, ...]


def prices(run: FinishedRun) -> Prices | None:
    """What there is to compare; nothing unless dense networks were trained beside."""
    task = run.task
    wanted = dict.fromkeys((task.log_score, task.metrics[0].key))
    metrics = tuple(metric for key in wanted for metric in task.metrics if metric.key == key)
    found = []
    for name, kind, ensemble in _contenders(run):
        figures = ensemble.evaluate(run.held)
        cost = ensemble.cost
        # Small networks are dense ones of their own kind: all costs are of the run's kind.
        flops = cost.flops / run.ensemble.cost.dense_flops
        parameters = cost.parameters / run.ensemble.cost.dense_parameters
        values = tuple(metric.factor * figures[metric.key] for metric in metrics)
        found.append(Price(name, kind, flops, parameters, values))
    return Prices(metrics, tuple(found)) if any(p.kind == "dense" for p in found) else None


def _contenders(run: FinishedRun) -> Iterator[tuple[str, str, Ensemble]]:
    """Names, kinds and networks; the run's own ensemble is the last of its kind."""
    if (dense := _opened(run.folder.baseline, run)) is not None:
        yield "one dense", "dense", dense[:1]
        if len(dense) > 1:
            yield f"{len(dense)} dense", "dense", dense
    if (small := _opened(run.folder.small, run)) is not None:
        yield f"{len(small)} small dense", "small", small
    if (mean := run.mean_network()) is not None:
        yield "mean network", "mean", Ensemble([mean], run.task)
    members = len(run.ensemble)
    for count in [count for count in COUNTS if count < members]:
        yield f"{count} of {members}", "ensemble", run.ensemble[:count]
    yield "this ensemble" if members > 1 else "this network", "ensemble", run.ensemble


def _opened(folder: Path, run: FinishedRun) -> Ensemble | None:
    """The networks of a finished run inside the folder."""
    return open_ensemble(folder, run.recipe.code) if (folder / "result.json").is_file() else None
