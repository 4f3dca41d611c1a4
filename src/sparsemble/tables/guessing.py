"""What a table holds, found by looking at it, and said in sentences.

- Numbers, dates, times, true and false are numbers; texts are categories.
- Left out is what says nothing or too much: a column with one value, one that counts the rows, and
  texts of which there are too many different ones.

All of it can be said otherwise, by `Choices`. What a target is stands in `target`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsemble.errors import InputError
from sparsemble.settings import Names, Settings
from sparsemble.tables.cells import EXACT, Cells, Countable, cells_of, day, number
from sparsemble.tables.columns import (
    CategoryColumn,
    NumberColumn,
    Unseen,
    counted,
    some,
)
from sparsemble.tables.encoding import TableEncoding
from sparsemble.tables.target import Predict, guess_target

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame

_MOST_CATEGORIES = 100
"""Of a column whose texts are categories without being asked for,"""
_ROWS_EACH = 2
"""with so many rows of each on average."""
_MOSTLY = 0.9
"""The share of texts that are numbers, from which on the others are mistakes."""
_CODES = 20
"""Different texts that may be numbers and still are categories."""
_COUNTED = 20
"""Rows of a table in which a column that counts them is told from one that does not."""
_WHOLE = re.compile(r"(?<=\d)\.0$")
"""How floats write whole numbers."""
_NOUNS = {
    "number": "a number",
    "truth": "true or false, as 1 or 0",
    "date": "a date, as days since 1970",
    "duration": "a duration, in days",
    "time": "a time of day, as a part of it",
}


class Choices(Settings):
    """What the user says about columns, in the place of what would be found."""

    predict: Predict | None = None
    """What the target is; by default classes if it holds texts, true and false, or few different
    whole numbers, else numbers."""
    categories: Names = ()
    """Columns that are categories, be they numbers or have many different values."""
    numbers: Names = ()
    """Columns that are numbers, be they texts or count the rows."""
    leave_out: Names = ()
    """Columns that are not read."""
    unseen: Unseen = "refuse"
    """What predictions do about categories and missing values that training did not show."""


@dataclass(frozen=True)
class Guess:
    """What was found in a table."""

    encoding: TableEncoding
    found: tuple[str, ...]
    """One sentence about the target, and one about every column."""


def guess(frame: Frame, targets: Sequence[str], choices: Choices, source: str) -> Guess:
    """What a table holds.

    Args:
        frame: All rows that have a target.
        targets: The columns to be predicted; several are numbers.
        choices: What is known already.
        source: Where it comes from, for messages.
    """
    _check_choices(frame.columns, targets, choices, source)
    found: list[str] = []
    wanted = []
    for name in targets:
        cells = cells_of(frame[name])
        target, sentence = guess_target(
            name, cells, choices.predict, f"{source}, column {name!r}", alone=len(targets) == 1
        )
        wanted.append(target)
        found.append(sentence)
    columns: list[NumberColumn | CategoryColumn] = []
    left_out = []
    for name in frame.columns:
        if name in targets:
            continue
        column, sentence = _column(
            name, cells_of(frame[name]), choices, f"{source}, column {name!r}"
        )
        found.append(f"{name}: {sentence}")
        if column is None:
            left_out.append(name)
        else:
            columns.append(column)
    if not columns:
        raise InputError(f"{source}: no column is left to learn from: {'; '.join(found)}")
    encoding = TableEncoding(
        columns=tuple(columns),
        targets=tuple(wanted),
        left_out=tuple(left_out),
        unseen=choices.unseen,
    )
    return Guess(encoding, tuple(found))


def _check_choices(
    names: Sequence[str], targets: Sequence[str], choices: Choices, source: str
) -> None:
    """Every column that is named is there, and is named once."""
    for what in ("categories", "numbers", "leave_out"):
        for name in getattr(choices, what):
            if name not in names:
                raise InputError(
                    f"{source}: there is no column {name!r}, as {what} says; there are "
                    f"{some(list(names))}"
                )
            if name in targets:
                raise InputError(
                    f"{source}: {name!r} is the target, and stands in {what}: say predict = "
                    "'classes' or 'numbers'"
                )
    named = (*choices.categories, *choices.numbers, *choices.leave_out)
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise InputError(f"{source}: {twice!r} cannot be two of categories, numbers and leave_out")


def _column(
    name: str, cells: Cells, choices: Choices, source: str
) -> tuple[NumberColumn | CategoryColumn | None, str]:
    """What is read of a column, if anything, and a sentence about it."""
    rows = len(cells.values)
    if name in choices.leave_out:
        return None, "left out, as asked for"
    if name in choices.numbers:
        return _number(name, cells, source)
    if cells.kind in ("nothing", "other"):
        return None, f"left out, it holds {cells.words}"
    if cells.missing.all():
        return None, "left out, it holds nothing"
    if name in choices.categories:
        return _category(name, cells, source)
    if cells.is_same:
        return None, f"left out, it is {_one(cells)} in every row"
    if cells.kind != "text":
        if _counts(cells):
            return None, "left out, it counts the rows"
        return _number(name, cells, source)
    if all(day(text) is not None for text in cells.names):
        return _number(name, cells, source, "date")
    _check_mistakes(cells, name, source)
    different = len(cells.names)
    if different > min(_MOST_CATEGORIES, max(rows / _ROWS_EACH, 2)):
        return None, (
            f"left out, {different} different texts in {rows} rows (name it in categories to "
            "keep it)"
        )
    return _category(name, cells, source)


def _number(
    name: str, cells: Cells, source: str, written: Countable = "number"
) -> tuple[NumberColumn, str]:
    """`written` is what texts stand for."""
    kind = cells.kind
    holds = written if kind == "text" or kind == "nothing" or kind == "other" else kind
    values = counted(cells, holds, source)
    missing = np.isnan(values)
    if missing.all():
        raise InputError(f"{source}: holds no number at all: leave it out")
    fill = float(np.median(values[~missing]))
    column = NumberColumn(name=name, holds=holds, fill=fill, marked=bool(missing.any()))
    if not missing.any():
        return column, _NOUNS[holds]
    usual = np.datetime64(round(fill), "D") if holds == "date" else f"{fill:.6g}"
    return column, f"{_NOUNS[holds]}, {_values(missing)} missing, filled in with {usual}"


def _category(name: str, cells: Cells, source: str) -> tuple[CategoryColumn, str]:
    if cells.kind in ("date", "duration", "time"):
        raise InputError(f"{source}: holds {cells.words}, which are no categories: give texts")
    missing = cells.missing
    if cells.kind == "number" and bool((np.abs(cells.values) > EXACT).any()):
        raise InputError(f"{source}: holds numbers too large to tell apart: give them as texts")
    different = list(dict.fromkeys(map(_written, cells.ordered)))
    column = CategoryColumn(name=name, categories=tuple(different), marked=bool(missing.any()))
    count = f"{len(different)} categor{'ies' if len(different) > 1 else 'y'}"
    sentence = f"{count} ({some(different)})"
    return column, sentence + (
        f", {_values(missing)} missing, as a category of its own" if missing.any() else ""
    )


def _written(text: str) -> str:
    """A category's text; whole numbers may have become fractions on their way.

    >>> _written("3.0"), _written("1.3.0")
    ('3', '1.3.0')
    """
    return text if number(text) is None else _WHOLE.sub("", text)


def _one(cells: Cells) -> str:
    """The first cell, as people write it."""
    if cells.kind == "date":
        return str(np.datetime64(round(cells.values[0] * 86_400), "s").item())
    return repr(cells.text(0))


def _values(missing: np.ndarray) -> str:
    count = int(missing.sum())
    return f"{count:,} value{'s' * (count > 1)}"


def _counts(cells: Cells) -> bool:
    """Does it number the rows, from 0 or 1 on, in whatever order?"""
    values = cells.values
    if cells.kind != "number" or len(values) < _COUNTED or cells.missing.any():
        return False
    first = values.min()
    return first in (0, 1) and np.array_equal(np.sort(values), first + np.arange(len(values)))


def _check_mistakes(cells: Cells, name: str, source: str) -> None:
    """Numbers among which a few texts stand are numbers with mistakes, and no categories."""
    strange = np.array([number(text) is None for text in cells.names])
    if len(strange) <= _CODES or not strange.any():
        return
    wrong = strange[cells.codes] & ~cells.missing
    if wrong.sum() > (1 - _MOSTLY) * (~cells.missing).sum():
        return
    row = int(wrong.argmax())
    raise InputError(
        f"{source}: holds numbers, but for {cells.text(row)!r} in row {row + 1} "
        f"({wrong.sum()} of {len(wrong)} rows hold such): correct it, leave it empty if it is "
        f"missing, or name {name!r} in categories or leave_out"
    )
