"""What a network reads of one column: a number, or one input for each category.

A number that is missing is filled in; a further input says that it was, if any was missing in the
table that was learned from. What that table did not show (a category, a missing value) is refused,
or else ignored: a number is filled in, of the categories none is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparsemble.errors import InputError
from sparsemble.settings import Names, Settings
from sparsemble.tables.cells import (
    EXACT,
    TRUTHS,
    WORDS,
    Cells,
    Countable,
    day,
    in_date,
    number,
    plain,
)

Unseen = Literal["refuse", "ignore"]
_READERS: dict[str, Callable[[str], float | None]] = {
    "number": number,
    "truth": lambda text: TRUTHS.get(text.lower()),
    "date": day,
}
"""Texts that stand for numbers."""
UNSEEN = "say --unseen ignore, in Python table(…, unseen='ignore') before learning"
_FEW = 8
"""Names that a message shows."""


class NumberColumn(Settings):
    """Numbers, or what is counted as such: true or false as 1 or 0, times in days."""

    kind: Literal["number"] = "number"
    name: str
    holds: Countable = "number"
    """What stands in the table: dates are days since 1970, durations and times of day are days."""
    fill: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """What a missing value is filled in with: the median."""
    marked: bool = False
    """Does a further input say which values were missing?"""

    @property
    def names(self) -> tuple[str, ...]:
        """What its inputs are called."""
        return (self.name, f"{self.name} is missing") if self.marked else (self.name,)

    def in_words(self, inputs: Sequence[float]) -> str | float:
        """What stands in the table, of a row's inputs.

        >>> NumberColumn(name="since", holds="date").in_words([18_224.0])
        '2019-11-24'
        """
        if self.marked and inputs[1]:
            return "missing"
        if self.holds == "date":
            return in_date(inputs[0])
        return ("false", "true")[round(inputs[0])] if self.holds == "truth" else inputs[0]

    def encode(self, cells: Cells, source: str, unseen: Unseen) -> np.ndarray:
        """Its inputs, `(rows, 1)` or, with the one that says what is missing, `(rows, 2)`."""
        values = counted(cells, self.holds, source)
        missing = np.isnan(values)
        if not self.marked:
            _check_missing(cells, missing, source, unseen)
        with np.errstate(over="ignore"):
            values = np.where(missing, self.fill, values).astype(np.float32)
        row = _first(~np.isfinite(values))
        if row is not None:
            raise InputError(f"{source}: {cells.row(row)} is too large for single precision")
        return np.stack([values, missing], 1) if self.marked else values[:, None]


class CategoryColumn(Settings):
    """One of several categories: as many inputs, one of them 1 and the others 0."""

    kind: Literal["category"] = "category"
    name: str
    categories: Annotated[Names, Field(min_length=1)]
    """As texts, in the order of their inputs."""
    marked: bool = False
    """Is to be missing a category of its own?"""

    @property
    def names(self) -> tuple[str, ...]:
        """What its inputs are called."""
        found = tuple(f"{self.name}={category}" for category in self.categories)
        return (*found, f"{self.name} is missing") if self.marked else found

    def in_words(self, inputs: Sequence[float]) -> str:
        """What stands in the table, of a row's inputs.

        >>> CategoryColumn(name="region", categories=("north", "east")).in_words([0.0, 1.0])
        'east'
        """
        words = (*self.categories, *(["missing"] if self.marked else []))
        return next((word for word, own in zip(words, inputs, strict=True) if own), "another")

    def encode(self, cells: Cells, source: str, unseen: Unseen) -> np.ndarray:
        """Its inputs, `(rows, categories)`, one more if to be missing is one."""
        if not self.marked:
            _check_missing(cells, cells.missing, source, unseen)
        places = places_of(cells, self.categories, source, None if unseen == "ignore" else _REMEDY)
        inputs: np.ndarray = places[:, None] == np.arange(len(self.names))
        return inputs.astype(np.float32)


AnyColumn = Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]
_REMEDY = f"to read it as none of them {UNSEEN}"


class TargetColumn(Settings):
    """What is to be predicted: classes by their names, or numbers."""

    name: str
    classes: Annotated[Names, Field(min_length=2)] | None = None
    """What they are called, in the order of their indices; without any it is a number."""

    def encode(self, cells: Cells, source: str) -> np.ndarray:
        """Indices of classes, or numbers; none may be missing."""
        row = _first(cells.missing)
        if row is not None:
            raise InputError(f"{source}: {cells.row(row)} holds no value: leave that row out")
        if self.classes is None:
            return counted(cells, "number", source)
        remedy = "an ensemble cannot be measured on a class that it has not learned"
        return places_of(cells, self.classes, source, remedy)


def counted(cells: Cells, wanted: str, source: str) -> np.ndarray:
    """Cells as numbers of what is wanted, NaN where missing; others are refused by their row."""
    if cells.kind in (wanted, "nothing") or (wanted, cells.kind) == ("number", "truth"):
        row = _first(np.isinf(cells.values))
        if row is not None:
            raise InputError(
                f"{source}: {cells.row(row)} holds infinity: give a number, or nothing"
            )
        return cells.values
    if cells.kind == "text" and wanted in _READERS:
        return _read(cells, wanted, source)
    if (wanted, cells.kind) == ("truth", "number"):
        row = _first(~np.isin(cells.values, (0, 1)) & ~cells.missing)
        if row is None:
            return cells.values
        raise InputError(f"{source}: {cells.row(row)} holds {plain(cells.values[row])}, not 0 or 1")
    raise InputError(f"{source}: holds {cells.words} where {WORDS[wanted]} are expected")


def _read(cells: Cells, wanted: str, source: str) -> np.ndarray:
    """Texts that are numbers or dates, or that say true or false."""
    values = [_READERS[wanted](text) for text in cells.names]
    strange = _each(cells, [value is None for value in values], False)
    row = _first(strange)
    if row is not None:
        raise InputError(
            f"{source}: {cells.row(row)} holds the text {cells.text(row)!r} where {WORDS[wanted]} "
            f"are expected ({strange.sum()} of {len(strange)} rows do)"
        )
    return _each(cells, [float("nan") if value is None else value for value in values], np.nan)


def _each(cells: Cells, values: list[Any], missing: Any) -> np.ndarray:
    """What each cell gets, by what each different one does."""
    found: np.ndarray = np.array([*values, missing])[cells.codes]
    return found


def places_of(cells: Cells, known: tuple[str, ...], source: str, remedy: str | None) -> np.ndarray:
    """Where among the known texts each cell is; a missing one is behind the last of them.

    Args:
        cells: To be looked up.
        known: Texts; a number may be written in another way.
        source: The table and the column, for messages.
        remedy: What to do about others; without one they are at -1.
    """
    if cells.kind in ("date", "duration", "time", "other"):
        raise InputError(f"{source}: holds {cells.words} where texts are expected")
    order = {_canonical(name): place for place, name in enumerate(known)}
    order |= {name: place for place, name in enumerate(known)}
    found = [order.get(text, order.get(_canonical(text), -1)) for text in cells.names]
    places = _each(cells, found, len(known))
    row = _first(places < 0)
    if row is not None and remedy is not None:
        raise InputError(
            f"{source}: {cells.row(row)} holds {cells.text(row)!r}, which was not in the table "
            f"that was learned from ({found.count(-1)} such so far); known are "
            f"{some(known)}; {remedy}"
        )
    return places


def _canonical(text: str) -> str:
    """The same text for every way to write a number, or true and false."""
    value = number(text)
    if value is not None and abs(value) < EXACT:  # larger ones are told apart by their digits
        return plain(value)
    return text.lower() if text.lower() in TRUTHS else text


def some(names: tuple[str, ...] | list[str]) -> str:
    """Names in a sentence, only the first if there are many.

    >>> some(("no", "yes"))
    'no, yes'
    """
    rest = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {rest} more" if rest > 0 else "")


def _check_missing(cells: Cells, missing: np.ndarray, source: str, unseen: Unseen) -> None:
    row = _first(missing)
    if row is not None and unseen == "refuse":
        raise InputError(
            f"{source}: {cells.row(row)} holds no value ({_rows(missing)} of {len(missing)} "
            "read), and in the table that was learned from every row had one: give one; to "
            f"have it filled in {UNSEEN}"
        )


def _rows(which: np.ndarray) -> str:
    count = int(which.sum())
    return f"{count} row{'s' * (count > 1)}"


def _first(which: np.ndarray) -> int | None:
    """The first row of those that are meant."""
    return int(which.argmax()) if which.any() else None
