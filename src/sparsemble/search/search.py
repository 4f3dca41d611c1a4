"""The search for hyper-parameters: recipes varied over a grid, measured on validation data.

A search file names a recipe and the values to try:

    recipe = "mnist-sgld-gsp-96"
    validation = 10000
    [grid]
    "prior.penalty" = [1e-5, 2e-5]
    "retrain.schedule.lr" = [0.05, 0.1]

Every combination is run on the training set without its last `validation` examples and measured on
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
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.results import Result
from sparsemble.results.tables import Table
from sparsemble.search.jobs import Job, Outcome, Workplace, chain_key, outcomes
from sparsemble.settings import Settings
from sparsemble.store import write_json


class Search(Settings):
    """What is tried."""

    recipe: str
    validation: Annotated[int, Field(ge=1)] | None = None
    """Training examples to measure on; a text has a validation part of its own."""
    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]

    def measured_on_validation(self) -> dict[str, Any]:
        """The changes that make the recipe measure on validation data."""
        data = self.base().data
        fields = () if data is None else type(data).model_fields
        if self.validation is not None:
            if "validation" not in fields:
                raise InputError("validation is for examples: a text has a validation part")
            return {"data.validation": self.validation}
        if "measure" not in fields:
            raise InputError("validation is missing: say how many training examples to measure on")
        return {"data.measure": "validation"}

    def base(self, changes: Mapping[str, Any] | None = None) -> Recipe:
        """The recipe that is varied."""
        return load_recipe(self.recipe, changes)

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
        recipe = search.base(changes | search.measured_on_validation())
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
            "scores": {
                part: score.model_dump(mode="json") for part, score in result.scores.items()
            },
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
            "recipe": search.base().model_dump(mode="json"),
            "provenance": best_first[0][1].provenance,
            "points": entries,
            "diverged": list(diverged),
        },
    )


def search_table(found: list[tuple[dict[str, Any], Result]]) -> Table:
    """The points as a table, best first."""
    tried = [changes for changes, _ in found]
    keys = [key for key in tried[0] if any(changes[key] != tried[0][key] for changes in tried)]
    rows = [
        (
            *(
                f"{changes[key]:g}" if isinstance(changes[key], float) else str(changes[key])
                for key in keys
            ),
            *(metric.text(result.score[metric.key]) for metric in result.shown),
            f"{result.parameters_ratio:.2f}×",
            f"{result.flops_ratio:.2f}×",
        )
        for changes, result in _best_first(found)
    ]
    titles = [metric.title for metric in found[0][1].shown]
    return Table("On validation data", (*keys, *titles, "Parameters", "FLOPs"), tuple(rows))


def _best_first(found: list[tuple[dict[str, Any], Result]]) -> list[tuple[dict[str, Any], Result]]:
    """By the likelihood where there is one, it being smoother than an error; else as metrics go."""

    def loss(pair: tuple[dict[str, Any], Result]) -> float:
        score = pair[1].score
        return score["nll"] if "nll" in score.curve else score[pair[1].metrics[0].key]

    return sorted(found, key=loss)


def in_words(result: Result) -> str:
    """A result in a few words."""
    score = result.score
    return ", ".join(f"{metric.title} {metric.text(score[metric.key])}" for metric in result.shown)
