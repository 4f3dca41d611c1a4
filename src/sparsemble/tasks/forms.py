"""How people ask for a prediction: they draw a picture, fill in fields, or write.

A form is a plain value. It says what stands in one row of a request, so that a page can be made of
it without knowing the task.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from sparsemble.data import Scaling
from sparsemble.pages.images import image_side
from sparsemble.tables import CategoryColumn, NumberColumn, TableEncoding
from sparsemble.tables.cells import plain

MOST_FIELDS = 100
"""More than these nobody fills in one by one."""
_SMALLEST = 8
"""Pixels of a side; fewer cannot be drawn."""
_LARGE = 20
"""Pixels of a side; with fewer there is no room for a margin."""
_ENDS = (1.0, 16.0, 255.0)
"""What pictures are usually written with for ink; paper is 0."""


@dataclass(frozen=True)
class Picture:
    """A square picture, drawn by hand; a row is a list of its pixels."""

    side: int
    ink: float
    """The value of a pixel that is all ink; of paper it is 0."""
    margin: int
    """Pixels around what is drawn."""
    line: float
    """The thickness of a line, as a share of what is drawn."""
    width: float = 1.0
    """How wide what is drawn may be, beside how high: what is wider is made narrower."""
    kind: Literal["picture"] = "picture"


@dataclass(frozen=True)
class Field:
    """One value of a row."""

    name: str
    holds: str
    """A number, truth, date, duration, time, or category."""
    usual: str
    """What stands there at first."""
    choices: tuple[str, ...] = ()
    """Of a category."""
    may_lack: bool = False
    """Were values missing in what was learned from?"""


@dataclass(frozen=True)
class Fields:
    """Values typed in; a row is an object by their names, or a list if they have none."""

    fields: tuple[Field, ...]
    named: bool
    kind: Literal["fields"] = "fields"


@dataclass(frozen=True)
class Writing:
    """A text that is gone on with; a row is the text."""

    words: tuple[str, ...]
    """Some that are known."""
    end: str
    """What ends a line; a line break stands for it."""
    kind: Literal["writing"] = "writing"


@dataclass(frozen=True)
class Values:
    """Anything else: a row as JSON."""

    example: str
    kind: Literal["values"] = "values"


Form = Picture | Fields | Writing | Values


def form_of_numbers(shape: Sequence[int], names: Sequence[str] | None, scaling: Scaling) -> Form:
    """The form for one array of numbers per example.

    Args:
        shape: Of one example.
        names: Of its features, if they have any.
        scaling: What the network sees of them, which tells what they are like.
    """
    side = image_side(shape)
    if side is not None and side[0] == side[1] and side[0] >= _SMALLEST:
        return _picture(side[0], _ink(scaling))
    if len(shape) == 1 and shape[0] <= MOST_FIELDS:
        known = names or [f"number {place}" for place in range(1, shape[0] + 1)]
        usual = scaling.shift.expand(shape[0]).tolist()
        fields = [
            Field(name, "number", f"{value:.4g}") for name, value in zip(known, usual, strict=True)
        ]
        return Fields(tuple(fields), named=names is not None)
    return Values(json.dumps(np.zeros(tuple(shape)).tolist()))


def _picture(side: int, ink: float) -> Picture:
    """As digits are usually given: large ones as MNIST's are, small ones without a margin."""
    if side < _LARGE:
        return Picture(side, ink, margin=0, line=0.19, width=0.68)
    return Picture(side, ink, margin=side // 7, line=0.14)


def form_of_table(encoding: TableEncoding) -> Fields:
    """A field for every column of the table that was learned from."""
    return Fields(tuple(_field(column) for column in encoding.columns), named=True)


def _field(column: NumberColumn | CategoryColumn) -> Field:
    if isinstance(column, CategoryColumn):
        first = column.categories[0]
        return Field(column.name, "category", first, column.categories, column.marked)
    return Field(column.name, column.holds, _usual(column), may_lack=column.marked)


def _usual(column: NumberColumn) -> str:
    if column.holds == "truth":
        return "true" if column.fill >= 0.5 else "false"
    if column.holds == "date":
        return str(np.datetime64(round(column.fill), "D"))
    return plain(float(f"{column.fill:.6g}"))


def _ink(scaling: Scaling) -> float:
    """The largest value of a pixel: what becomes 1, or the usual end that is nearest."""
    shift, factor = scaling.shift.double(), scaling.factor.double()
    if not shift.any() and factor.ndim == 0:
        return float(1 / factor)
    reached: Tensor = (shift + 1.5 / factor).max()
    return min(_ENDS, key=lambda end: abs(np.log(end / max(float(reached), 1e-6))))
