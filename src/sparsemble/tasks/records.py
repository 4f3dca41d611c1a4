"""Records as a CSV table: one column for everything that they hold, whatever it is called.

Names and texts come from files of strangers, and tables are opened by programs that compute what
begins like a formula. So a text that does has a `'` before it, unless it is a number; and a column
that would be called like another gets the name of what it belongs to before its own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from sparsemble.data.rows import is_number

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What texts begin with that spreadsheets compute."""


def header_of(record: Mapping[str, Any]) -> str:
    """The first line of a table of such records.

    >>> header_of({"prediction": "b", "probabilities": {"prediction": 0.1, "b": 0.9}})
    'prediction,probabilities.prediction,b\\n'
    """
    names: list[str] = []
    for key, value in record.items():
        for own in value if isinstance(value, dict) else (key,):
            name = plain(own)
            while name in names:
                name = f"{key}.{name}"
            names.append(name)
    return _written([names])


def lines_of(records: Sequence[Mapping[str, Any]]) -> str:
    """The lines of a table that such records are; numbers have six figures."""
    return _written([_cells(record) for record in records])


def plain(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> plain("=1+1"), plain("-1.5"), plain("-x"), plain("x")
    ("'=1+1", '-1.5', "'-x", 'x')
    """
    return f"'{text}" if text.startswith(_FORMULAS) and not is_number(text) else text


def _cells(record: Mapping[str, Any]) -> list[str]:
    values: list[Any] = []
    for value in record.values():
        if isinstance(value, dict):
            values += value.values()
        else:
            values.append(value)
    return [f"{own:.6g}" if isinstance(own, float) else _text(own) for own in values]


def _text(value: Any) -> str:
    return "" if value is None else plain(str(value))


def _written(rows: Sequence[Sequence[str]]) -> str:
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    return table.getvalue()
