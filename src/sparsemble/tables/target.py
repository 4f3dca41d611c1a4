"""What a target is: classes, or a number; said with the reason.

A target of texts, or of true and false, is classes. So is one of whole numbers if there are only
two different ones, or few of them with many rows each; any other is a number.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparsemble.errors import InputError
from sparsemble.tables.cells import Cells
from sparsemble.tables.columns import TargetColumn, counted, some

Predict = Literal["classes", "numbers"]

_MOST_CLASSES = 20
"""Different whole numbers that are classes,"""
_ROWS_EACH_NUMBER = 10
"""with so many rows of each on average."""
_ROWS_EACH = 2
"""Rows that a class has on average, or it cannot be learned."""


def guess_target(
    name: str, cells: Cells, predict: Predict | None, source: str, *, alone: bool
) -> tuple[TargetColumn, str]:
    """A target, and a sentence that says what it is and why.

    Args:
        name: Of the column.
        cells: What it holds; none is missing.
        predict: What it is, if that is known.
        source: Where it comes from, for messages.
        alone: Is it the only one? Several are numbers.
    """
    rows = len(cells.values)
    if cells.kind not in ("number", "truth", "text"):
        raise InputError(f"{source}: holds {cells.words}, which cannot be predicted")
    if cells.is_same:
        raise InputError(f"{source}: is {cells.text(0)!r} in all rows: there is nothing to predict")
    kind, why = (predict, "as asked for") if predict else _kind(cells)
    if kind == "classes" and not alone:
        raise InputError(
            f"{source}: of several targets each must be numbers, and this one is classes, {why}"
        )
    if kind == "numbers":
        counted(cells, "number", source)
        return TargetColumn(name=name), f"{name}: to be predicted as a number, {why}"
    different = cells.ordered
    if len(different) > max(rows / _ROWS_EACH, 2):
        raise InputError(
            f"{source}: {len(different)} different values in {rows} rows are no classes that "
            "could be learned"
        )
    sentence = f"{name}: to be predicted, {len(different)} classes ({some(different)}), {why}"
    return TargetColumn(name=name, classes=tuple(different)), sentence


def _kind(cells: Cells) -> tuple[Predict, str]:
    if cells.kind != "number":
        return "classes", f"because it holds {cells.words}"
    different = len(np.unique(cells.values))
    is_whole = np.array_equal(cells.values, np.floor(cells.values))
    few = different <= min(_MOST_CLASSES, len(cells.values) / _ROWS_EACH_NUMBER)
    if is_whole and (different == 2 or few):
        return "classes", f"because it holds whole numbers, only {different} different ones"
    return "numbers", f"because it holds {different} different numbers"
