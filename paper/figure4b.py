"""Figure 4b: perplexity on the validation text against the number of members, three ways.

*Uniform*: one chain of 80 epochs, sampled at one interval or another up to its end, after a burn-in
of at least 10, so that more members lie closer together. *Every 6*: the chain runs longer for every
further member. *Independent*: dense networks trained by SGD. The first two are subsets of the
members of one run, whose chain is sampled every other epoch.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from sparsemble.data import Corpus
from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.results import Result
from sparsemble.results.tables import Table
from sparsemble.search.jobs import Job, Workplace, saved_ensemble
from sparsemble.settings import Settings
from sparsemble.store import read_json, write_json
from sparsemble.tasks import LanguageModelling
from sparsemble.tasks.scoring import figures_of

EVERY = 6
"""Epochs between the samples of the second curve."""


class Point(Settings):
    """An ensemble of so many members, `interval` epochs apart (0: independent networks)."""

    members: int
    interval: int
    perplexity: float


class Curves(Settings):
    """The three curves of the figure, and the result whose members the first two are made of."""

    uniform: list[Point]
    every_six: list[Point]
    independent: list[Point]
    result: Result


def curves_of(result: Result, log_probabilities: Tensor, independent: Result | None) -> Curves:
    """The curves from the members' log-probabilities `(members, tokens)` on the validation text."""
    step = result.recipe.chain.interval
    count, from_the_end = len(log_probabilities), log_probabilities.flip(0)
    # For every number of members the widest interval that has room for them.
    widest = {count // stride: stride for stride in range(1, count // 2 + 1)}
    uniform = [
        _point(from_the_end[::stride][:members], stride * step)
        for members, stride in widest.items()
    ]
    every = log_probabilities[EVERY // step - 1 :: EVERY // step]
    return Curves(
        uniform=uniform,
        every_six=[_point(every[:k], EVERY) for k in range(1, len(every) + 1)],
        independent=[
            Point(members=k, interval=0, perplexity=perplexity)
            for k, perplexity in enumerate(_dense_curve(independent), 1)
        ],
        result=result,
    )


def measure_curves(
    job: Job, result: Result, corpus: Corpus, place: Workplace, independent: Result | None
) -> Curves:
    """The curves of a finished run, whose ensemble lies in its workplace."""
    ensemble = Ensemble.load(saved_ensemble(job, place))
    text = corpus.split("validation").measured["validation"]
    found, _ = evidence_of(ensemble, ensemble.task.evaluation(text.data, text.name))
    return curves_of(result, found, independent)


def write_curves(curves: Curves, path: Path) -> None:
    """Keep the curves."""
    write_json(path, curves.model_dump(mode="json"))


def read_curves(path: Path) -> Curves:
    """Curves that `write_curves` wrote."""
    curves: Curves = Curves.read(read_json(path), source=str(path))
    return curves


def figure_table(curves: Curves) -> Table:
    """The figure as a table."""
    rows = [
        (name, str(point.members), str(point.interval or "–"), f"{point.perplexity:.2f}")
        for name, points in (
            ("80 epochs, uniform", curves.uniform),
            (f"every {EVERY} epochs", curves.every_six),
            ("independent SGD", curves.independent),
        )
        for point in points
    ]
    header = ("Sampling", "Members", "Interval", "Dev perplexity")
    return Table("Figure 4b: perplexity against the number of members", header, tuple(rows))


def _point(log_probabilities: Tensor, interval: int) -> Point:
    figures = figures_of(LanguageModelling(), log_probabilities, torch.empty(0))
    return Point(
        members=len(log_probabilities), interval=interval, perplexity=figures["perplexity"]
    )


def _dense_curve(result: Result | None) -> list[float]:
    return [] if result is None else result.scores["validation"].curve["perplexity"]
