"""The first record of a CSV file, which names its columns: wherever lines end, and however long."""

from __future__ import annotations

from csv import reader
from dataclasses import dataclass
from itertools import chain, islice

from sparsemble.data.opening import Opened
from sparsemble.data.rows import delimiter
from sparsemble.errors import InputError

_MOST_LINES = 100
"""That the names of columns may fill."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Header:
    """What stands between cells, the cells of the first record, and the bytes of its first line."""

    mark: str
    cells: list[str]
    length: int


def read_header(file: Opened) -> Header:
    """The first record of a file that is at its beginning; it is at the next one then."""
    first = _line(file)
    if first.startswith(_UTF_16):
        raise InputError(f"{file.path} is UTF-16: save it as UTF-8")
    start = first.decode("utf-8", "replace").removeprefix("\ufeff")
    if not start.strip():
        raise InputError(f"{file.path}: the first line is empty: it names the columns")
    mark = "\t" if file.path.suffix.lower() == ".tsv" else delimiter(start)
    others = (line.decode("utf-8", "replace") for line in iter(lambda: _line(file), b""))
    cells = next(reader(islice(chain([start], others), _MOST_LINES), delimiter=mark))
    return Header(mark, cells, len(first))


def _line(file: Opened) -> bytes:
    """The next line, whatever it ends in."""
    found = b""
    while begun := file.peek(1):
        ends = [place for place in (begun.find(b"\n"), begun.find(b"\r")) if place >= 0]
        found += file.read(min(ends) + 1 if ends else len(begun))
        if ends:
            if found.endswith(b"\r") and file.peek(1)[:1] == b"\n":
                file.read(1)
            break
    return found
