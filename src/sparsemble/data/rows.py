"""Rows of numbers from files, some at a time: CSV with or without a header, NPY, NPZ.

A column called `label` holds what is to be predicted, or columns called as the targets are; in an
NPZ file the arrays are `inputs` and, if known, `labels`, or one for every target. Nothing in these
files can run code: pickled arrays are refused. However long a file is, no more than a few thousand
rows of it are held.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from sparsemble.data.arrays import Archive, ArrayStream, rows_at_once
from sparsemble.data.opening import MOST_LINE, Opened, check_ending, seekable
from sparsemble.errors import InputError

LABEL = "label"


@dataclass(frozen=True)
class Rows:
    """Inputs, one row per example; names of their columns and labels where the file has them.

    Labels of several targets are columns, in the order in which the targets were asked for.
    """

    inputs: np.ndarray
    names: tuple[str, ...] | None = None
    labels: np.ndarray | None = None
    start: int = 0
    """How many rows of the file come before these."""

    def place(self, path: Path | str) -> str:
        """Where they come from, for messages: the file, and which rows if they are not the first.

        >>> Rows(np.zeros((2, 3)), start=4096).place("rows.csv")
        'rows.csv, rows 4097 to 4098'
        """
        last = self.start + len(self.inputs)
        return f"{path}, rows {self.start + 1} to {last}" if self.start else str(path)


def read_rows(path: Path, targets: Sequence[str] = ()) -> Iterator[Rows]:
    """The rows of a file or a pipe, some at a time, in their order.

    Args:
        path: What is read by its ending; a pipe without one by how it begins.
        targets: What its labels may be called.
    """
    readers = {".csv": _from_csv, ".npy": _from_npy, ".npz": _from_npz}
    check_ending(path, readers, "rows")
    with Opened(path) as file:
        ending = file.ending(readers, "rows")
        try:
            yield from readers[ending](file, targets)
        except InputError:
            raise
        except Exception as error:  # damaged or foreign files raise what their layer raises
            raise InputError(f"{path} cannot be read as {ending[1:].upper()}: {error}") from None


def _from_csv(file: Opened, targets: Sequence[str]) -> Iterator[Rows]:
    path, records = file.path, _Records(file)
    first = next(records, None)
    header = None if first is None or not any(map(_is_word, first[1])) else first[1]
    if header is not None or (first is not None and _counts(first[1])):
        # The names of the columns, or those that a table without names is written with.
        first = next(records, None)
    if first is None:
        raise InputError(f"{path} holds no rows")
    width = len(first[1] if header is None else header)
    where = [(header or []).index(name) for name in _labels_in(header or (), LABEL, targets)]
    names = [name for column, name in enumerate(header or ()) if column not in where]
    many, start = rows_at_once(4 * width), 0
    rest = chain([first], records)
    while lines := list(islice(rest, many)):
        numbers, labels = _parsed(lines, width, where, path)
        yield Rows(
            np.array(numbers, np.float32),
            None if header is None else tuple(names),
            _plain(np.array(labels)) if where else None,
            start,
        )
        start += len(lines)


class _Records(Iterator[tuple[int, list[str]]]):
    """The lines of a CSV file that hold anything, as cells, each with its number.

    A quoted cell may go on in the next line, so that a record needs a limit beside that of a line.
    """

    def __init__(self, file: Opened) -> None:
        self._path, self._length, self._began = file.path, 0, 1
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        first = text.readline()
        self._reader = csv.reader(self._lines(first, text), delimiter=delimiter(first))

    def __next__(self) -> tuple[int, list[str]]:
        cells: list[str] = []
        while not cells:
            self._length, self._began = 0, self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except csv.Error as error:
                raise csv.Error(f"line {self._began}: {error}") from None
        return self._reader.line_num, cells

    def _lines(self, first: str, others: Iterable[str]) -> Iterator[str]:
        for line in chain([first], others):
            self._length += len(line)
            if self._length > MOST_LINE:
                raise InputError(
                    f"{self._path}: the record that begins in line {self._began} is longer than "
                    f"{MOST_LINE / (1 << 20):g} MiB, the most that one may have: is a quotation "
                    "mark missing?"
                )
            yield line


def _parsed(
    lines: Sequence[tuple[int, list[str]]], width: int, labels: Sequence[int], path: Path
) -> tuple[list[list[float]], list[list[str]]]:
    """The numbers of some lines, and what stands in their columns of labels."""
    numbers, found = [], []
    behind = sorted(labels, reverse=True)
    for number, line in lines:
        if len(line) != width:
            raise InputError(f"{path}: line {number} has {len(line)} columns, not {width}")
        if labels:
            found.append([line[column] for column in labels])
            for column in behind:
                del line[column]
        try:
            numbers.append(list(map(float, line)))
        except ValueError:
            bad = next(text for text in line if not is_number(text))
            raise InputError(f"{path}: {bad!r} in line {number} is not a number") from None
    return numbers, found


def delimiter(line: str) -> str:
    """What a line of a CSV file has between its cells: what it has most of, outside quotes.

    >>> delimiter('"income, yearly";age;hours')
    ';'
    """
    bare = re.sub(r'"[^"]*"', "", line)
    return max((",", ";", "\t"), key=bare.count)


def _labels_in(names: Collection[str], label: str, targets: Sequence[str]) -> Sequence[str]:
    """Which of a file's columns or arrays hold what is to be predicted, if any do."""
    if label in names:
        return (label,)
    return targets if set(targets) <= set(names) else ()


def _plain(labels: np.ndarray) -> np.ndarray:
    """One label per example is no column."""
    return labels[:, 0] if labels.shape[1] == 1 else labels


def _from_npy(file: Opened, targets: Sequence[str]) -> Iterator[Rows]:
    file.limit_lines(None)
    return _beside(_some(ArrayStream(file, str(file.path)), file.path), [])


def _from_npz(file: Opened, targets: Sequence[str]) -> Iterator[Rows]:
    path = file.path
    file.limit_lines(None)
    arrays = Archive(seekable(file, path, "an NPZ file"), str(path))
    if "inputs" not in arrays.names:
        raise InputError(f"{path} holds {', '.join(arrays.names) or 'nothing'}, not 'inputs'")
    inputs = arrays.array("inputs")
    given = {name: arrays.array(name) for name in _labels_in(arrays.names, "labels", targets)}
    for name, labels in given.items():
        if labels.shape != inputs.shape[:1]:
            raise InputError(f"{path}: {name!r} of shape {labels.shape}, not one per example")
    return _beside(_some(inputs, path), list(given.values()))


def _beside(inputs: ArrayStream, labels: Sequence[ArrayStream]) -> Iterator[Rows]:
    """Rows of inputs and their labels, which lie in streams of their own."""
    many = rows_at_once(inputs.row_bytes + sum(own.row_bytes for own in labels))
    start = 0
    for part, *beside in zip(*(own.parts(many) for own in (inputs, *labels)), strict=True):
        yield Rows(part, None, _plain(np.stack(beside, 1)) if beside else None, start)
        start += len(part)


def _some(array: ArrayStream, path: Path) -> ArrayStream:
    if not len(array):
        raise InputError(f"{path} holds no rows")
    return array


def _counts(cells: list[str]) -> bool:
    """0, 1, 2, …, and so long that no example is likely to be that."""
    return len(cells) > 3 and cells == [str(k) for k in range(len(cells))]


def _is_word(text: str) -> bool:
    """An empty cell is a number that is missing."""
    return bool(text.strip()) and not is_number(text)


def is_number(text: str) -> bool:
    """Does a text stand for a number, be it infinite or none?"""
    try:
        float(text)
    except ValueError:
        return False
    return True
