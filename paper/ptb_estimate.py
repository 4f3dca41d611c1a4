"""What the rows of a size would take on this machine: a few steps of each chain, measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from paper.ptb import SizeName, recipe_name, rows_at
from paper.recipes import paper_recipe
from sparsemble.learning.candidates import COUNTS
from sparsemble.recipes import Recipe
from sparsemble.results.running import ingredients_of
from sparsemble.results.tables import Table
from sparsemble.runs.provenance import provenance
from sparsemble.settings import Settings
from sparsemble.stages import Callback, ChainState, draw_samples
from sparsemble.store import read_json, write_json

_WARMING, _MEASURED = 2, 5
"""Steps that are not counted, and steps whose median is."""
_HOUR = 3600


class RowEstimate(Settings):
    """One row: a step of its chain, all steps of all chains, and retraining of all members."""

    method: str
    models: int
    epochs: int
    step_seconds: float
    sampling_hours: float
    retraining_hours: float
    """At most: as if nothing had been pruned."""


class Estimate(Settings):
    """The rows of a size, and what measured them."""

    size: str
    rows: list[RowEstimate]
    measured_with: dict[str, Any]


def measure(size: SizeName, data_folder: Path | None) -> Estimate:
    """Take a few steps for every row."""
    rows = {row.recipe: row for row in rows_at(size)}
    return Estimate(
        size=size,
        rows=[
            _row(row.method, paper_recipe(recipe_name(name, size)), data_folder)
            for name, row in rows.items()
        ],
        measured_with=provenance(),
    )


def _row(method: str, recipe: Recipe, data_folder: Path | None) -> RowEstimate:
    fitted = ingredients_of(recipe, data_folder).fit()
    chain = recipe.chain
    batches = fitted.training.batches(chain.batch_size)
    watch = _Watch()
    with suppress(_Enough):
        draw_samples(
            fitted.network,
            fitted.layout,
            fitted.task,
            batches,
            recipe.prior,
            chain,
            seed=recipe.seed,
            callback=watch,
        )
    seconds = statistics.median(watch.seconds[_WARMING:])
    models = chain.chains * len(chain.steps_to_collect(batches.steps))
    hours = seconds * batches.steps / _HOUR
    return RowEstimate(
        method=method,
        models=models,
        epochs=chain.chains * chain.epochs,
        step_seconds=seconds,
        sampling_hours=hours * chain.chains * chain.epochs,
        retraining_hours=hours * _retrained(recipe, models),
    )


def _retrained(recipe: Recipe, models: int) -> int:
    """Epochs of all members that may be retrained, those of candidates that are not chosen too."""
    if recipe.retrain is None:
        return 0
    rounds = 0 if recipe.prune is None else (recipe.prune.steps - 1) * recipe.prune.between
    tried = sum(count for count in COUNTS if count <= models) if recipe.choose else models
    return tried * (recipe.retrain.epochs + rounds)


class _Enough(Exception):
    pass


class _Watch(Callback):
    """Measures the first steps of a chain."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._before = time.perf_counter()

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._before)
        self._before = now
        if step >= _WARMING + _MEASURED:
            raise _Enough


def estimate_file(size: SizeName, out: Path) -> Path:
    """Where an estimate is kept."""
    return out / f"estimate-{size}.json"


def write_estimate(estimate: Estimate, path: Path) -> None:
    """Keep it."""
    write_json(path, estimate.model_dump(mode="json"))


def read_estimate(path: Path) -> Estimate:
    """What was measured before."""
    found: Estimate = Estimate.read_back(read_json(path), path)
    return found


def table(estimate: Estimate) -> Table:
    """A line for every row."""
    rows = tuple(
        (
            row.method,
            str(row.models),
            str(row.epochs),
            f"{row.step_seconds:.2f}",
            f"{row.sampling_hours:.0f}",
            f"{row.retraining_hours:.0f}" if row.retraining_hours else "–",
        )
        for row in estimate.rows
    )
    threads = estimate.measured_with["threads"]
    title = f"What PTB, size {estimate.size}, would take on {threads} threads, by a few steps each"
    header = (
        "Method",
        "Models",
        "Epochs of sampling",
        "Seconds a step",
        "Sampling, hours",
        "Retraining, hours at most",
    )
    return Table(title, header, rows)
