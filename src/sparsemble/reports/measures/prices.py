"""Quality against cost: the ensemble, parts of it, and dense networks, on the same data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemble.ensemble import Ensemble
from sparsemble.learning.candidates import COUNTS
from sparsemble.recipes.baselines import is_dense
from sparsemble.reports.measures.summary import unlike_data
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
    measured_on: str


def prices(run: FinishedRun) -> Prices | None:
    """What there is to compare; nothing unless dense networks were trained beside."""
    task = run.task
    wanted = dict.fromkeys((task.log_score, task.metrics[0].key))
    metrics = tuple(metric for key in wanted for metric in task.metrics if metric.key == key)
    others = [
        _price(name, kind, ensemble.cost.flops, ensemble.cost.parameters, figures, run, metrics)
        for name, kind, ensemble in _others(run)
        for figures in [ensemble.evaluate(run.held).metrics]
    ]
    if not any(price.kind == "dense" for price in others):
        return None
    return Prices(metrics, (*others, *_own(run, metrics)), run.held.name)


def _price(
    name: str,
    kind: str,
    flops: int,
    parameters: int,
    figures: Mapping[str, float],
    run: FinishedRun,
    metrics: Sequence[Metric],
) -> Price:
    """Small networks are dense ones of their own kind: all costs are shares of the run's kind."""
    dense = run.ensemble.cost
    return Price(
        name,
        kind,
        flops / dense.dense_flops,
        parameters / dense.dense_parameters,
        tuple(metric.factor * figures[metric.key] for metric in metrics),
    )


def _others(run: FinishedRun) -> Iterator[tuple[str, str, Ensemble]]:
    """Names, kinds and networks of what is not of the ensemble."""
    dense = None
    if run.baseline is not None and is_dense(run.baseline.recipe) and not unlike_data(run):
        dense = _opened(run.folder.baseline, run)
    if dense is not None:
        yield "one dense", "dense", dense[:1]
        if len(dense) > 1:
            yield f"{len(dense)} dense", "dense", dense
    if (small := _opened(run.folder.small, run)) is not None:
        yield f"{len(small)} small dense", "small", small
    if (mean := run.mean_network()) is not None:
        yield "mean network", "mean", Ensemble([mean], run.task)


def _own(run: FinishedRun, metrics: Sequence[Metric]) -> Iterator[Price]:
    """The first one, two, … members, and all."""
    result, members = run.result, len(run.ensemble)
    curve = result.scores[run.shown_part].curve
    for count in [*(count for count in COUNTS if count < members), members]:
        whole = "this ensemble" if members > 1 else "this network"
        yield _price(
            whole if count == members else f"{count} of {members}",
            "ensemble",
            sum(result.member_flops[:count]),
            sum(result.member_parameters[:count]),
            {key: values[count - 1] for key, values in curve.items()},
            run,
            metrics,
        )


def _opened(folder: Path, run: FinishedRun) -> Ensemble | None:
    """The networks of a finished run inside the folder."""
    return open_ensemble(folder, run.recipe.code) if (folder / "result.json").is_file() else None
