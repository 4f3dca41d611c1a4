"""Rows of a table as objects by the names of its columns, as JSON writes them.

A name that an object lacks, or null, is a missing value. Durations and times of day are numbers of
days, dates are texts as ISO 8601 writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.tables.cells import Cells, cells_of_values
from sparsemble.tables.encoding import TableEncoding

_IN_DAYS = ("duration", "time")


def encoded_records(
    rows: Sequence[Mapping[str, Any]], encoding: TableEncoding, source: str
) -> Tensor:
    """The inputs, `(rows, inputs)`, as those of a table with these rows.

    Args:
        rows: In each the values by the names of their columns.
        encoding: Of the table that was learned from.
        source: Where they come from, for messages.
    """
    encoding.check_names(list(dict.fromkeys(name for row in rows for name in row)), source)
    cells = {
        column.name: _cells(rows, column.name, getattr(column, "holds", None))
        for column in encoding.columns
    }
    return encoding.encode_cells(cells, source)


def _cells(rows: Sequence[Mapping[str, Any]], name: str, holds: Any) -> Cells:
    cells = cells_of_values([_small(row.get(name)) for row in rows])
    is_counted = holds in _IN_DAYS and cells.kind == "number"
    return replace(cells, kind=holds) if is_counted else cells


def _small(value: Any) -> Any:
    """A whole number that no float holds is infinite: columns refuse it as such."""
    try:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    except OverflowError:
        return math.inf


def as_records(rows: Sequence[Any], source: str) -> list[Mapping[str, Any]]:
    """Rows that are objects, all of them."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise InputError(
                f"{source}: row {number} is no object: give values by the names of their columns"
            )
    return list(rows)
