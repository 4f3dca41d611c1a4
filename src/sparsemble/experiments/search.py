"""The search for hyper-parameters: recipes varied over a grid, measured on held-out training data.

A search file names a recipe and the values to try:

    recipe = "mnist-sgld-gsp-96"
    held_out = 10000
    [grid]
    "prior.penalty" = [1e-5, 2e-5]
    "retrain.schedule.rate" = [0.05, 0.1]

Every combination is run on the training set without its last `held_out` examples and measured on
those; the test set is never loaded into a decision. Points with the same chain share its samples.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from rich.console import Console

from sparsemble.errors import InputError
from sparsemble.experiments.jobs import Job, chain_key, run_jobs
from sparsemble.experiments.results import Result
from sparsemble.experiments.tables import Sheet
from sparsemble.recipes import load_recipe
from sparsemble.settings import Settings
from sparsemble.store import write_json


class Search(Settings):
    """What is tried."""

    recipe: str
    held_out: Annotated[int, Field(ge=1)]
    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]

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


def run_search(
    search: Search,
    *,
    work: Path,
    processes: int = 1,
    data_folder: Path | None = None,
    console: Console | None = None,
) -> Iterator[tuple[dict[str, Any], Result]]:
    """Run every point, resuming those that were stopped; yield each with its result."""
    points = {}
    for changes in search.points():
        recipe = load_recipe(search.recipe, {**changes, "data.held_out": search.held_out})
        name = "-".join(f"{key.rpartition('.')[2]}{value}" for key, value in changes.items())
        job = Job(recipe, work / f"point-{name}-{chain_key(recipe)}.json")
        points[job] = changes
    for job, result in run_jobs(
        list(points), work=work, processes=processes, data_folder=data_folder, console=console
    ):
        yield points[job], result


def write_search(search: Search, found: list[tuple[dict[str, Any], Result]], path: Path) -> None:
    """One result file for the whole search, best point first."""
    best_first = _best_first(found)
    entries = [
        {
            "changes": changes,
            "error": result.metrics["error"],
            "nll": result.metrics["nll"],
            "member_error": result.metrics["member_error"],
            "disagreement": result.metrics["disagreement"],
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
        },
    )


def search_sheet(found: list[tuple[dict[str, Any], Result]]) -> Sheet:
    """The points as a table, best first."""
    keys = list(found[0][0])
    rows = [
        (
            *(
                f"{changes[key]:g}" if isinstance(changes[key], float) else str(changes[key])
                for key in keys
            ),
            f"{100 * result.metrics['error']:.2f}",
            f"{result.metrics['nll']:.4f}",
            f"{100 * result.metrics['member_error']:.2f}",
            f"{result.parameters_ratio:.2f}×",
            f"{result.flops_ratio:.2f}×",
        )
        for changes, result in _best_first(found)
    ]
    header = (*keys, "Error %", "NLL", "Members' error %", "Parameters", "FLOPs")
    return Sheet("Held-out results", header, tuple(rows))


def _best_first(found: list[tuple[dict[str, Any], Result]]) -> list[tuple[dict[str, Any], Result]]:
    return sorted(found, key=lambda pair: pair[1].metrics["nll"])
