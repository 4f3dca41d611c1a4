"""From a table or its files to data: the columns are looked at, or read as another table's were.

people = read_table("people.csv", target="income")
train, test = people.parts(test=0.2)
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsemble.errors import InputError
from sparsemble.tables.columns import Unseen, some
from sparsemble.tables.dataset import TableDataset, with_targets
from sparsemble.tables.files import read_frame
from sparsemble.tables.frames import as_frame
from sparsemble.tables.guessing import Choices, guess
from sparsemble.tables.target import Predict

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def table(
    frame: Any,
    target: str | Sequence[str] | None = None,
    *,
    predict: Predict | None = None,
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    unseen: Unseen = "refuse",
    like: TableDataset | None = None,
) -> TableDataset:
    """A table of pandas, polars or Arrow as data to learn from.

    Args:
        frame: The table; a dict of columns is one, too.
        target: The column to be predicted; several are numbers.
        predict: What the target is; by default classes if it holds texts, true and false, or few
            different whole numbers, else numbers.
        categories: Columns that are categories, be they numbers or have many different values.
        numbers: Columns that are numbers, be they texts or count the rows.
        leave_out: Columns that are not read.
        unseen: What predictions do about categories and missing values that this table does not
            show: "refuse", or "ignore".
        like: A table whose columns are known, in the place of all of these: a test set's are read
            as those of the training set are.
    """
    choices = _choices(predict, categories, numbers, leave_out, unseen)
    return made_of(as_frame(frame, "the table"), target, choices, "the table", like)


def read_table(
    files: Files,
    target: str | Sequence[str] | None = None,
    *,
    predict: Predict | None = None,
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    unseen: Unseen = "refuse",
    like: TableDataset | None = None,
) -> TableDataset:
    """A table in files as data to learn from.

    Args:
        files: CSV, Parquet or NPZ; several are one table, their columns matched by name.
        target: As for `table`.
        predict: As for `table`.
        categories: As for `table`; of CSV files they are read as they are written.
        numbers: As for `table`.
        leave_out: As for `table`.
        unseen: As for `table`.
        like: As for `table`.
    """
    choices = _choices(predict, categories, numbers, leave_out, unseen)
    paths = [Path(files)] if isinstance(files, str | os.PathLike) else [Path(own) for own in files]
    frame = read_frame(paths, like.columns.texts if like is not None else choices.categories)
    return made_of(frame, target, choices, " and ".join(map(str, paths)), like)


def made_of(
    frame: Frame,
    target: str | Sequence[str] | None,
    choices: Choices,
    source: str,
    like: TableDataset | None = None,
) -> TableDataset:
    """A table as data: its columns are looked at, unless they are like those of another."""
    if like is not None:
        if not isinstance(like, TableDataset):
            raise InputError(f"like = {type(like).__name__}: give what table() made")
        if target is not None or choices != Choices():
            raise InputError("like says everything about the columns: leave out the rest")
        made = TableDataset.of(frame, like.columns, source)
        return replace(made, scaling=like.scaling)
    targets = (target,) if isinstance(target, str) else _listed(target or (), "target")
    if not targets:
        raise InputError(
            f"{source}: say which column is to be predicted (target): {some(frame.columns)}"
        )
    for name in targets:
        _check_target(name, frame.columns, source)
    if len(set(targets)) < len(targets):
        raise InputError(f"target = {list(targets)}: name each column once")
    if len(frame) == 0:
        raise InputError(f"{source}: no rows")
    frame, dropped = with_targets(frame, targets, source)
    found = guess(frame, targets, choices, source)
    made = TableDataset.of(frame, found.encoding, source)
    return replace(made, found=(*dropped, *found.found))


def _choices(
    predict: Predict | None,
    categories: Sequence[str],
    numbers: Sequence[str],
    leave_out: Sequence[str],
    unseen: Unseen,
) -> Choices:
    """What the user says about columns, checked."""
    return Choices(
        predict=predict,
        categories=_listed(categories, "categories"),
        numbers=_listed(numbers, "numbers"),
        leave_out=_listed(leave_out, "leave_out"),
        unseen=unseen,
    )


def _check_target(name: str, names: Sequence[str], source: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {some(list(names))}"
        raise InputError(f"{source}: there is no column {name!r} to be predicted; {hint}")


def _listed(names: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"{what} = {names!r}: give a list of columns, as {what}=[{str(names)!r}]")
    if others := [name for name in names if not isinstance(name, str)]:
        raise InputError(f"{what} holds {others[0]!r}: give the names of columns, which are texts")
    return tuple(names)
