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

import hashlib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from sparsemble.errors import DivergedError, InputError
from sparsemble.results import Result
from sparsemble.results.tables import Table
from sparsemble.search.jobs import Job, Workplace, chain_key, outcomes
from sparsemble.search.objectives import loss_of
from sparsemble.search.settings import SearchSettings
from sparsemble.search.space import SpaceSearch
from sparsemble.search.watching import Abandoned
from sparsemble.store import read_text, write_json
from sparsemble.store.limits import RECIPE_BYTES
from sparsemble.store.toml import parsed_toml

_MOST_POINTS = 10_000

_LONGEST_NAME, _SHORT_NAME = 160, 40
"""Of a point's files, which have more added to it, and what is kept of a longer one."""
_NOT_IN_NAMES = re.compile(r"[^ -~]|[/\\]")


class Search(SearchSettings):
    """What is tried: every combination of values."""

    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]

    @field_validator("grid")
    @classmethod
    def _can_be_run(cls, grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
        cls.refuse_own(grid)
        count = math.prod(map(len, grid.values()))
        if count > _MOST_POINTS:
            raise ValueError(
                f"{count:,} combinations, more than {_MOST_POINTS:,}: leave values out, or search "
                "a [space]"
            )
        return grid

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination of the grid's values."""
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))


def read_search(path: Path) -> Search | SpaceSearch:
    """The search that a TOML file describes: of a grid, or of a space."""
    try:
        fields = parsed_toml(read_text(path, RECIPE_BYTES))
    except (tomllib.TOMLDecodeError, InputError) as error:
        raise InputError(f"search file {path}: {error}") from None
    if {"grid", "space"} <= fields.keys():
        raise InputError(f"search file {path}: [grid] and [space] are two searches; keep one")
    kind = SpaceSearch if "space" in fields else Search
    search: Search | SpaceSearch = kind.read(fields, source=f"search file {path}")
    return search


def run_search(
    search: Search, place: Workplace
) -> Iterator[tuple[dict[str, Any], Result | DivergedError]]:
    """Run every point, resuming those that were stopped; yield each with what came of it."""
    points = {}
    for changes in search.points():
        recipe = search.base(changes | search.measured_on_validation())
        file = f"{_point_name(recipe.name, changes)}-{chain_key(recipe)}.json"
        job = Job(recipe, place.folder / file)
        points[job] = changes
    for job, outcome in outcomes(list(points), place):
        assert not isinstance(outcome, Abandoned), "nobody watches"
        yield points[job], outcome


def _point_name(recipe: str, changes: dict[str, Any]) -> str:
    """What the files of a point are called: by its values, as far as files can be called so."""
    values = "-".join(f"{key.rpartition('.')[2]}{value}" for key, value in changes.items())
    name = f"point-{recipe}-{values}"
    if len(name) <= _LONGEST_NAME and not _NOT_IN_NAMES.search(name):
        return name
    digest = hashlib.sha256(json.dumps(changes, sort_keys=True, default=str).encode()).hexdigest()
    return f"{_NOT_IN_NAMES.sub('_', name)[:_SHORT_NAME]}-{digest[:16]}"


def write_search(
    search: Search,
    found: list[tuple[dict[str, Any], Result]],
    path: Path,
    diverged: Sequence[dict[str, Any]] = (),
) -> None:
    """One result file for the whole search, best point first."""
    best_first = _best_first(found)
    write_json(
        path,
        {
            "search": search.model_dump(mode="json"),
            "recipe": search.base().model_dump(mode="json"),
            "provenance": best_first[0][1].provenance,
            "points": [entry(changes, result) for changes, result in best_first],
            "diverged": list(diverged),
        },
    )


def entry(changes: dict[str, Any], result: Result) -> dict[str, Any]:
    """A point as result files have it."""
    return {
        "changes": changes,
        "scores": {part: score.model_dump(mode="json") for part, score in result.scores.items()},
        "parameters_ratio": result.parameters_ratio,
        "flops_ratio": result.flops_ratio,
        "structure": result.structures[0],
        "rollbacks": result.rollbacks,
        "seconds": result.seconds,
    }


def search_table(found: list[tuple[dict[str, Any], Result]]) -> Table:
    """The points as a table, best first."""
    tried = [changes for changes, _ in found]
    keys = [key for key in tried[0] if any(changes[key] != tried[0][key] for changes in tried)]
    return points_table("On validation data", keys, _best_first(found))


def points_table(
    title: str, keys: Sequence[str], found: Sequence[tuple[dict[str, Any], Result]]
) -> Table:
    """Points in their order: the named settings, metrics and costs."""
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
        for changes, result in found
    ]
    titles = [metric.title for metric in found[0][1].shown]
    return Table(title, (*keys, *titles, "Parameters", "FLOPs"), tuple(rows))


def _best_first(found: list[tuple[dict[str, Any], Result]]) -> list[tuple[dict[str, Any], Result]]:
    return sorted(found, key=lambda pair: loss_of(pair[1]))


def in_words(result: Result) -> str:
    """A result in a few words."""
    score = result.score
    return ", ".join(f"{metric.title} {metric.text(score[metric.key])}" for metric in result.shown)
