"""What was learned, against what, at which price, and one sentence that says how it went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from sparsemble.reports.opening import FinishedRun
from sparsemble.results.result import Result
from sparsemble.tasks import Metric

Outcome = Literal["better", "same", "worse"]
Column = tuple[str, str, Metric]
"""Title, part of the data, metric."""
_NOTHING = 0.005
"""A difference of so small a share is none."""


@dataclass(frozen=True)
class Contender:
    """One line of the comparison; costs are multiples of one dense network's."""

    name: str
    networks: int
    figures: tuple[float | None, ...]
    parameters: float
    flops: float
    disk_bytes: int | None


@dataclass(frozen=True)
class Summary:
    """The run in short; the first contender is the ensemble, the second what it is held against."""

    recipe: str
    description: str
    seed: int
    members: int
    kind: str
    measured_on: str
    metrics: tuple[str, ...]
    main: int
    """Which of the metrics decides; the first ones of the part that counts."""
    contenders: tuple[Contender, ...]
    baseline: Contender | None
    """The one among them that the recipe names; none that was learned on other data."""
    outcome: Outcome
    clear: bool
    """Is the difference more than chance could explain?"""
    verdict: str
    reference: float | None
    """The main metric of the data's own source, if that is known."""
    seconds: dict[str, float]
    rollbacks: int
    notes: tuple[str, ...]


def run_summary(run: FinishedRun) -> Summary:
    """The run beside its baseline, if it has one, and beside a single member."""
    result = run.result
    columns = _columns(result)
    counts = "test" if "test" in result.scores else "validation"
    main = next(k for k, (_, part, _) in enumerate(columns) if part == counts)
    contenders = [_whole("this ensemble", result, columns)]
    unlike = unlike_data(run)
    baseline, other = None, None
    if run.baseline is not None and not unlike:
        baseline = _whole(f"the baseline {run.baseline.recipe.name}", run.baseline, columns)
        other = run.baseline.scores.get(counts)
        contenders.append(baseline)
    contenders.append(_single(run, columns))
    where = run.split.measured[counts].name
    metric = columns[main][2]
    margin = metric.factor * run.task.margin(result.score, other or result.score)
    mine, theirs = (contender.figures[main] or 0.0 for contender in contenders[:2])
    outcome, clear = compared(mine, theirs, margin, metric)
    reference = result.score.reference.get(metric.key)
    return Summary(
        result.recipe.name,
        result.recipe.description,
        result.recipe.seed,
        len(run.ensemble),
        run.task.noun,
        where,
        tuple(title for title, _, _ in columns),
        main,
        tuple(contenders),
        baseline,
        outcome,
        clear,
        _verdict(contenders, metric, main, outcome, clear, where, run) + unlike,
        None if reference is None else metric.factor * reference,
        result.seconds,
        result.rollbacks,
        tuple(result.notes),
    )


def column_title(metric: Metric, part: str, result: Result) -> str:
    """What a metric on one part of the data is called; a single part needs no name."""
    return f"{metric.title} ({part})" if len(result.scores) > 1 else metric.title


def _columns(result: Result) -> list[Column]:
    return [
        (column_title(metric, part, result), part, metric)
        for part in result.scores
        for metric in result.shown
    ]


def compared(own: float, other: float, margin: float, metric: Metric) -> tuple[Outcome, bool]:
    """Is the first figure better, and by more than the `margin` that chance would explain?"""
    if math.isclose(own, other, rel_tol=_NOTHING):
        return "same", False
    lower = own < other
    better = lower if metric.better == "lower" else not lower
    return "better" if better else "worse", abs(own - other) > margin


def _whole(name: str, result: Result, columns: Sequence[Column]) -> Contender:
    figures = []
    for _, part, metric in columns:
        score = result.scores.get(part)
        figures.append(None if score is None else metric.factor * score[metric.key])
    return Contender(
        name,
        len(result.structures),
        tuple(figures),
        result.parameters_ratio,
        result.flops_ratio,
        result.disk_bytes,
    )


def unlike_data(run: FinishedRun) -> str:
    """A sentence if the baseline was learned or measured on other data, so nothing compares."""
    if run.baseline is None:
        return ""
    about = [
        {} if recipe.data is None else recipe.data.model_dump()
        for recipe in (run.recipe, run.baseline.recipe)
    ]
    keys = dict.fromkeys([*about[0], *about[1]])
    differ = [key for key in keys if about[0].get(key) != about[1].get(key)]
    if not differ:
        return ""
    return (
        f" The baseline {run.baseline.recipe.name} is of different data and not compared: the "
        f"recipes differ in {', '.join(f'data.{key}' for key in differ)}."
    )


def _single(run: FinishedRun, columns: Sequence[Column]) -> Contender:
    """A member alone, on average."""
    result, dense = run.result, run.ensemble.cost
    figures = tuple(
        metric.factor * result.scores[part].of_a_member(metric.key) for _, part, metric in columns
    )
    parameters = mean(result.member_parameters) / dense.dense_parameters
    flops = mean(result.member_flops) / dense.dense_flops
    return Contender("a single member on average", 1, figures, parameters, flops, None)


def _verdict(
    contenders: Sequence[Contender],
    metric: Metric,
    main: int,
    outcome: Outcome,
    clear: bool,
    where: str,
    run: FinishedRun,
) -> str:
    own, other = contenders[:2]
    sparse = "sparse " if run.recipe.prune is not None else ""
    several = own.networks > 1
    who = f"{own.networks} {sparse}networks, averaged," if several else f"One {sparse}network"
    s = "" if several else "s"
    mine, theirs = (_read(metric, contender.figures[main]) for contender in (own, other))
    did = f"reach{'' if several else 'es'} {metric.name} {mine} on {where}"
    price = (
        f"{'Together they hold' if several else 'It holds'} {own.parameters:.2f} times the weights "
        f"of one dense network and take{s} {own.flops:.2f} times its operations."
    )
    if not several and len(contenders) == 2:  # what is left to compare with is itself
        return f"{who} {did}. {price}"
    judged = {"better": "That is better", "same": "That is no different", "worse": "That is worse"}
    chance = "" if clear or outcome == "same" else ", but by less than chance could explain"
    return f"{who} {did}; {other.name} {theirs}. {judged[outcome]}{chance}. {price}"


def _read(metric: Metric, value: float | None) -> str:
    """A figure in a sentence, with its unit."""
    text = metric.text(None if value is None else value / metric.factor)
    return f"{text} %" if metric.factor != 1 else text
