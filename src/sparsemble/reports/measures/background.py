"""Where a run came from: its recipe as TOML, what computed it, and the files it left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tomli_w

from sparsemble.recipes import Recipe
from sparsemble.reports.opening import FinishedRun


@dataclass(frozen=True)
class Background:
    """Everything needed to repeat the run, and what it takes on disk."""

    folder: str
    recipe: str
    environment: dict[str, str]
    files: tuple[tuple[str, int], ...]


def background(run: FinishedRun, *, without: Path | None = None) -> Background:
    """Of a run; `without` is the report itself."""
    folder = run.folder.path
    skipped = None if without is None else without.resolve()
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and file.name != ".lock" and file.resolve() != skipped
    )
    return Background(
        str(folder),
        recipe_text(run.recipe),
        {name: str(value) for name, value in run.result.provenance.items() if value is not None},
        tuple((file.relative_to(folder).as_posix(), file.stat().st_size) for file in files),
    )


def recipe_text(recipe: Recipe) -> str:
    """A recipe as a TOML file that would load to the same."""
    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True))
