"""The search for hyper-parameters: recipes varied over a grid, measured on validation data.

A search file names a recipe and the values to try:

    recipe = "mnist-sgld-gsp-96"
    held_out = 10000
    [grid]
    "prior.penalty" = [1e-5, 2e-5]
    "retrain.schedule.rate" = [0.05, 0.1]

Every combination is run on the training set without its last `held_out` examples and measured on
those; a text has its own validation part instead. The test set is never loaded into a decision.
Points with the same chain share its samples.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sparsemble.errors import InputError
from sparsemble.experiments.jobs import Job, Outcome, Workplace, chain_key, outcomes
from sparsemble.recipes import TextData, load_recipe
from sparsemble.recipes.models import CustomData
from sparsemble.runs.results import Result
from sparsemble.runs.sheets import Sheet
from sparsemble.settings import Settings
from sparsemble.store import write_json


class Search(Settings):
    """What is tried."""

    recipe: str
    held_out: Annotated[int, Field(ge=1)] | None = None
    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]

    @property
    def validation(self) -> dict[str, Any]:
        """The changes that make a recipe measure on validation data."""
        data = load_recipe(self.recipe).data
        if self.held_out is None and isinstance(data, TextData | CustomData):
            return {"data.measure": "valid"}
        if isinstance(data, TextData):
            raise InputError("held_out is for examples: a text has a validation part")
        if self.held_out is None:
            raise InputError("held_out is missing: say how many training examples to measure on")
        return {"data.held_out": self.held_out}

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination of the grid's values."""
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


def read_search(path: Path) -> Search:
    """The search that a TOML file describes."""
    try:
        fields = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"search file {path}: {error}") from None
    search: Search = Search.read(fields, source=f"search file {path}")
    return search


def run_search(search: Search, place: Workplace) -> Iterator[tuple[dict[str, Any], Outcome]]:
    """Run every point, resuming those that were stopped; yield each with what came of it."""
    points = {}
    for changes in search.points():
        recipe = load_recipe(search.recipe, changes | search.validation)
        name = "-".join(f"{key.rpartition('.')[2]}{value}" for key, value in changes.items())
        file = f"point-{recipe.name}-{name}-{chain_key(recipe)}.json"
        job = Job(recipe, place.folder / file)
        points[job] = changes
    for job, outcome in outcomes(list(points), place):
        yield points[job], outcome


def write_search(
    search: Search,
    found: list[tuple[dict[str, Any], Result]],
    path: Path,
    diverged: Sequence[dict[str, Any]] = (),
) -> None:
    """One result file for the whole search, best point first."""
    best_first = _best_first(found)
    entries = [
        {
            "changes": changes,
            "metrics": result.metrics,
            "curves": result.curves,
            "parameters_ratio": result.parameters_ratio,
            "flops_ratio": result.flops_ratio,
            "structure": result.structures[0],
            "rollbacks": result.rollbacks,
            "seconds": result.seconds,
        }
        for changes, result in best_first
    ]
    write_json(
        path,
        {
            "search": search.model_dump(mode="json"),
            "recipe": load_recipe(search.recipe).model_dump(mode="json"),
            "provenance": best_first[0][1].provenance,
            "points": entries,
            "diverged": list(diverged),
        },
    )


def search_sheet(found: list[tuple[dict[str, Any], Result]]) -> Sheet:
    """The points as a table, best first."""
    tried = [changes for changes, _ in found]
    keys = [key for key in tried[0] if any(changes[key] != tried[0][key] for changes in tried)]
    rows = [
        (
            *(
                f"{changes[key]:g}" if isinstance(changes[key], float) else str(changes[key])
                for key in keys
            ),
            *_figures(result.metrics),
            f"{result.parameters_ratio:.2f}×",
            f"{result.flops_ratio:.2f}×",
        )
        for changes, result in _best_first(found)
    ]
    names = tuple(name for name, _, _ in _columns(found[0][1].metrics))
    header = (*keys, *names, "Parameters", "FLOPs")
    return Sheet("Held-out results", header, tuple(rows))


def _best_first(found: list[tuple[dict[str, Any], Result]]) -> list[tuple[dict[str, Any], Result]]:
    def loss(pair: tuple[dict[str, Any], Result]) -> float:
        metrics = pair[1].metrics
        return metrics["valid_perplexity"] if "valid_perplexity" in metrics else metrics["nll"]

    return sorted(found, key=loss)


def _columns(metrics: Mapping[str, float]) -> tuple[tuple[str, str, str], ...]:
    """Title, key and format of the metrics a table shows."""
    if "valid_perplexity" in metrics:
        return (
            ("Perplexity", "valid_perplexity", ".2f"),
            ("Best member's", "valid_single_perplexity", ".2f"),
        )
    return (
        ("Error %", "error", ".2%"),
        ("NLL", "nll", ".4f"),
        ("Members' error %", "member_error", ".2%"),
    )


def _figures(metrics: Mapping[str, float]) -> list[str]:
    return [format(metrics[key], style).rstrip("%") for _, key, style in _columns(metrics)]


def told(result: Result) -> str:
    """A result in a few words."""
    figures = zip(_columns(result.metrics), _figures(result.metrics), strict=True)
    return ", ".join(f"{name} {figure}" for (name, _, _), figure in figures)
