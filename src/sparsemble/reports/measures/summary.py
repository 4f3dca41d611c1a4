"""What was learned, against what, at which price, and one sentence that says how it went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from sparsemble.data import Corpus
from sparsemble.recipes.models import CustomData, ImageData
from sparsemble.reports.opening import FinishedRun
from sparsemble.runs.results import Result

Outcome = Literal["better", "same", "worse"]

CLASS_METRICS = (
    ("Error %", "error", 100.0),
    ("NLL", "nll", 1.0),
    ("Calibration error", "ece", 1.0),
)
"""Column, key of a result's metrics, factor."""
TEXT_METRICS = (
    ("Validation perplexity", "valid_perplexity", 1.0),
    ("Test perplexity", "test_perplexity", 1.0),
)
_NOTHING = 0.005
"""Perplexities closer than this share are called the same."""


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
    """Which of the metrics decides."""
    contenders: tuple[Contender, ...]
    baseline: Contender | None
    """The one among them that the recipe names; none that was learned on other data."""
    outcome: Outcome
    clear: bool
    """Is the difference more than chance could explain?"""
    verdict: str
    floor: float | None
    """The main metric of the data's own source, if that is known."""
    seconds: dict[str, float]
    rollbacks: int
    unknown: dict[str, int]


def measured_on(run: FinishedRun) -> str:
    """The data that the main figures come from."""
    if isinstance(run.data, Corpus):
        part = "test" if "test_perplexity" in run.result.metrics else "validation"
        return f"the {part} text of {run.data.name}"
    examples, about = len(run.data[1]), run.recipe.data
    if isinstance(about, ImageData) and about.held_out:
        return f"{examples:,} held-out training images of {about.name}"
    if isinstance(about, ImageData):
        return f"the {examples:,} test images of {about.name}"
    if isinstance(about, CustomData) and about.held_out:
        return f"{examples:,} held-out training examples"
    return f"the {examples:,} test examples"


def run_summary(run: FinishedRun) -> Summary:
    """The run beside its baseline, if it has one, and beside a single member."""
    result, text = run.result, isinstance(run.data, Corpus)
    known = TEXT_METRICS if text else CLASS_METRICS
    columns = tuple(column for column in known if column[1] in result.metrics)
    contenders = [_whole("this ensemble", result, columns)]
    unlike = _unlike_data(run)
    baseline = None
    if run.baseline is not None and not unlike:
        baseline = _whole(f"the baseline {run.baseline.recipe.name}", run.baseline, columns)
        contenders.append(baseline)
    contenders.append(_single(run, columns))
    main = len(columns) - 1 if text else 0
    where = measured_on(run)
    own, other = (contender.figures[main] for contender in contenders[:2])
    assert own is not None
    assert other is not None
    examples = None if isinstance(run.data, Corpus) else len(run.data[1])
    outcome, clear = compared(own, other, examples)
    truth = result.metrics.get(columns[main][1].replace("perplexity", "true_perplexity"))
    return Summary(
        result.recipe.name,
        result.recipe.description,
        result.recipe.seed,
        len(run.ensemble),
        "language models" if text else "classifiers",
        where,
        tuple(name for name, _, _ in columns),
        main,
        tuple(contenders),
        baseline,
        outcome,
        clear,
        _verdict(contenders, main, outcome, clear, where, run) + unlike,
        truth if text else None,
        result.seconds,
        result.rollbacks,
        result.unknown,
    )


def compared(own: float, other: float, examples: int | None) -> tuple[Outcome, bool]:
    """Is the first figure better, and by more than chance would explain?

    For error rates in % on so many `examples`: two standard errors of the difference, as if the
    two had been measured on different ones. A text is long enough to trust half a percent.
    """
    if examples is None:
        margin = _NOTHING * other
        same = abs(own - other) <= margin
    else:
        spread = sum(p * (100 - p) for p in (own, other)) / examples
        margin, same = 2 * math.sqrt(spread), math.isclose(own, other)
    clear = abs(own - other) > margin
    return "same" if same else "better" if own < other else "worse", clear


def _whole(name: str, result: Result, columns: tuple[tuple[str, str, float], ...]) -> Contender:
    return Contender(
        name,
        len(result.structures),
        tuple(_scaled(result.metrics.get(key), factor) for _, key, factor in columns),
        result.parameters_ratio,
        result.flops_ratio,
        result.disk_bytes,
    )


def _unlike_data(run: FinishedRun) -> str:
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


def _single(run: FinishedRun, columns: tuple[tuple[str, str, float], ...]) -> Contender:
    """The best member on the validation text; of classifiers the members' mean."""
    result, dense = run.result, run.ensemble.cost
    if "valid_perplexity" in result.metrics:
        own = result.curves["valid_members"]
        best = own.index(min(own))
        name = "its best single member"
        keys = [key.replace("perplexity", "single_perplexity") for _, key, _ in columns]
        costs = float(result.member_parameters[best]), float(result.member_flops[best])
    else:
        name = "a single member on average"
        keys = [f"member_{key}" for _, key, _ in columns]
        costs = mean(result.member_parameters), mean(result.member_flops)
    figures = (
        _scaled(result.metrics.get(key), factor)
        for key, (_, _, factor) in zip(keys, columns, strict=True)
    )
    parameters, flops = costs[0] / dense.dense_parameters, costs[1] / dense.dense_flops
    return Contender(name, 1, tuple(figures), parameters, flops, None)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value


def _verdict(
    contenders: Sequence[Contender],
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
    mine, theirs = own.figures[main], other.figures[main]
    if isinstance(run.data, Corpus):
        did = f"reach{'es' if s else ''} a perplexity of {mine:.2f} on {where}"
        against = f"{other.name} reaches {theirs:.2f}"
    else:
        did = f"err{s} on {mine:.2f} % of {where}"
        against = f"{other.name} errs on {theirs:.2f} %"
    price = (
        f"{'Together they hold' if several else 'It holds'} {own.parameters:.2f} times the weights "
        f"of one dense network and take{s} {own.flops:.2f} times its operations."
    )
    if not several and len(contenders) == 2:  # what is left to compare with is itself
        return f"{who} {did}. {price}"
    judged = {"better": "That is better", "same": "That is no different", "worse": "That is worse"}
    chance = "" if clear or outcome == "same" else ", but by less than chance could explain"
    return f"{who} {did}; {against}. {judged[outcome]}{chance}. {price}"
