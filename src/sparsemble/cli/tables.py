"""What `learn` makes of a table on the command line: a recipe, and sentences about its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparsemble.errors import InputError
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.recipes.data import TableData
from sparsemble.recipes.tables import table_recipe
from sparsemble.tables.files import ENDINGS


def table_or_recipe(
    recipe: str | None,
    changes: Mapping[str, Any],
    *,
    files: Sequence[Path] | None,
    targets: Sequence[str] | None,
    test: Path | None,
    hidden: str | None,
    predict: str | None,
    unseen: str | None,
) -> Recipe:
    """The recipe that a command asks for: one by its name, or that of a table.

    Args:
        recipe: A name or a file; of a table it only says settings.
        changes: Single settings by dotted key.
        files: Of the table; the others are only for one.
        targets: Its columns to be predicted.
        test: A file with rows to measure on.
        hidden: Sizes of hidden layers, with commas.
        predict: Classes or numbers.
        unseen: What to do about what training did not show.
    """
    if files:
        if recipe is not None and Path(recipe).suffix.lower() in ENDINGS:
            raise InputError(f"{recipe}: write --csv before every file, as --csv {recipe}")
        return table_recipe(
            files,
            targets or (),
            recipe=recipe,
            test=test,
            hidden=None if hidden is None else _sizes(hidden),
            predict=predict,
            unseen=unseen,
            changes=changes,
        )
    asked = {
        "--target": targets,
        "--test": test,
        "--hidden": hidden,
        "--predict": predict,
        "--unseen": unseen,
    }
    for option, value in asked.items():
        if value:
            raise InputError(f"{option} is for a table: name one, as --csv FILE --target COLUMN")
    if recipe is None:
        raise InputError(
            "nothing to learn: name a recipe (sparsemble recipes lists them) or a table, as "
            "--csv FILE --target COLUMN"
        )
    return load_recipe(recipe, changes)


def _sizes(text: str) -> list[int]:
    try:
        return [int(size) for size in text.split(",")]
    except ValueError:
        raise InputError(f"--hidden {text}: write sizes with commas, as 64,64") from None


def show_columns(recipe: Recipe, console: Any) -> None:
    """Say what was found in the columns of a table."""
    if isinstance(recipe.data, TableData):
        train, test = recipe.data.parts()
        for sentence in train.found:
            console.print(sentence)
        console.print(f"{len(train):,} rows to learn from, {len(test):,} to measure on")
