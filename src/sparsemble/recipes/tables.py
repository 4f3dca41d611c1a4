"""The recipe of a table: its data, a feed-forward network, and settings to be found or borrowed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparsemble.errors import InputError
from sparsemble.recipes.files import recipe_fields, recipe_from
from sparsemble.recipes.recipe import Recipe
from sparsemble.tables import read_frame
from sparsemble.tables.columns import some

_HIDDEN = (64, 64)
"""Units of a network that nobody says anything about."""
_TO_BE_FOUND = {"schedule": {"kind": "constant", "lr": 0.01}}
"""A chain without settings of its own."""


def table_recipe(
    files: Sequence[Path],
    targets: Sequence[str],
    *,
    recipe: str | None = None,
    test: Path | None = None,
    hidden: Sequence[int] | None = None,
    predict: str | None = None,
    unseen: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Recipe:
    """A recipe that learns from a table, named after its first file.

    Args:
        files: Of the table.
        targets: The columns to be predicted.
        recipe: Another one, whose settings are taken; without one a budget has to find them.
        test: A file with the rows that figures come from; by default some are set aside.
        hidden: Units of the hidden layers.
        predict: Classes or numbers; by default what the target looks like.
        unseen: What predictions do about what training did not show: refuse, or ignore.
        changes: Single settings by dotted key.
    """
    if not targets:
        names = some(read_frame(files).columns)
        raise InputError(f"{files[0]}: say which column is to be predicted (--target): {names}")
    about = f"{' and '.join(targets)} of {' and '.join(file.name for file in files)}"
    fields: dict[str, Any] = {"network": {"hidden": _HIDDEN}, "chain": _TO_BE_FOUND}
    if recipe is not None:
        fields = recipe_fields(recipe)
        about = f"{about}, with the settings of {recipe}"
    given = {"name": "table", "files": [*files], "target": [*targets]}
    fields |= {
        "name": _name(files[0].stem),
        "description": about,
        "data": given | _said({"test": test, "predict": predict, "unseen": unseen}),
    }
    if hidden is not None:
        fields["network"] = {**fields.get("network", {}), "hidden": [*hidden]}
    return recipe_from(fields, changes, source=f"table {files[0]}")


def _said(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _name(stem: str) -> str:
    """A file's name as that of a recipe, and of a folder.

    >>> _name("my people (2)"), _name("_x")
    ('my-people-2', 'table-_x')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-.")
    return plain if re.match("[A-Za-z0-9]", plain) else f"table-{plain}".rstrip("-")
