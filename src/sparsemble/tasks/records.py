"""Records as a CSV table: one column for everything that they hold, whatever it is called.

Names and texts come from files of strangers, and tables are opened by programs that compute what
begins like a formula. So a text that does has a `'` before it, unless it is a number; and a column
that would be called like another gets the name of what it belongs to before its own.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
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
    """The lines of a table that such records are; numbers have six figures.

    >>> lines_of([{"prediction": "a, b", "entropy": 0.25, "probabilities": {"x": 1 / 3}}])
    '"a, b",0.25,0.333333\\n'
    """
    styles: dict[tuple[type, ...], tuple[str, list[int]]] = {}
    lines = []
    for record in records:
        values = _values(record)
        kinds = tuple(map(type, values))
        if kinds not in styles:  # nearly always one for all: numbers are then quickly written
            styles[kinds] = _style(kinds)
        style, texts = styles[kinds]
        for place in texts:
            values[place] = _cell("" if values[place] is None else str(values[place]))
        lines.append(style % tuple(values))
    return "".join(lines)


def plain(text: str) -> str:
    """A text that no spreadsheet takes for a formula.

    >>> plain("=1+1"), plain("-1.5"), plain("-x"), plain("x")
    ("'=1+1", '-1.5', "'-x", 'x')
    """
    return f"'{text}" if text.startswith(_FORMULAS) and not is_number(text) else text


def _values(record: Mapping[str, Any]) -> list[Any]:
    values: list[Any] = []
    for value in record.values():
        if type(value) is dict:
            values += value.values()
        else:
            values.append(value)
    return values


def _style(kinds: Sequence[type]) -> tuple[str, list[int]]:
    """How a line of such values is written, and which of them are texts."""
    numbers = [issubclass(kind, float) for kind in kinds]
    line = ",".join("%.6g" if number else "%s" for number in numbers)
    return f"{line}\n", [place for place, number in enumerate(numbers) if not number]


@lru_cache(4096)
def _cell(text: str) -> str:
    """A text as a cell of a line; most of them are names of classes, which come again."""
    # Beside another cell, since a line with nothing but an empty one is written otherwise.
    return _written([["", plain(text)]]).removeprefix(",").removesuffix("\n")


def _written(rows: Sequence[Sequence[str]]) -> str:
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    return table.getvalue()
