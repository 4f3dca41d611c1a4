"""Where a run came from: its recipe as TOML, what computed it, and the files it left."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    lines = _section(recipe.model_dump(mode="json", exclude_none=True), "")
    return "\n".join(lines).strip() + "\n"


def _section(fields: dict[str, Any], path: str) -> list[str]:
    lines = [f"{_key(k)} = {_value(v)}" for k, v in fields.items() if not isinstance(v, dict)]
    for key, value in fields.items():
        if isinstance(value, dict):
            place = f"{path}.{_key(key)}" if path else _key(key)
            inner = _section(value, place)
            # A section that only holds sections needs no head of its own.
            headed = not value or any(not isinstance(v, dict) for v in value.values())
            lines += ["", f"[{place}]", *inner] if headed else inner
    return lines


def _key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else _quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return str(value)


def _quoted(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, which also wants the delete character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
