"""Rows of numbers from files: CSV with or without a header, NPY, NPZ.

A column called `label` holds what is to be predicted, or columns called as the targets are; in an
NPZ file the arrays are `inputs` and, if known, `labels`, or one for every target. Nothing in these
files can run code: pickled arrays are refused.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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


def read_rows(path: Path, targets: Sequence[str] = ()) -> Rows:
    """The rows of a file, by its ending; `targets` are what its labels may be called."""
    readers = {".csv": _read_csv, ".npy": _read_npy, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: rows are read from {', '.join(readers)} files")
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    return reader(path, targets)


def _read_csv(path: Path, targets: Sequence[str]) -> Rows:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            start = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter(start))
            lines = [(reader.line_num, line) for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}") from None
    header = lines.pop(0)[1] if lines and any(map(_is_word, lines[0][1])) else None
    if header is None and lines and _counts(lines[0][1]):
        lines.pop(0)  # the names that a table without names is written with
    if not lines:
        raise InputError(f"{path} holds no rows")
    width = len(lines[0][1]) if header is None else len(header)
    where = [(header or []).index(name) for name in _labels_in(header or (), LABEL, targets)]
    numbers, labels = [], []
    for number, line in lines:
        if len(line) != width:
            raise InputError(f"{path}: line {number} has {len(line)} columns, not {width}")
        labels.append([line[column] for column in where])
        line = [text for column, text in enumerate(line) if column not in where]
        bad = next((text for text in line if not is_number(text)), None)
        if bad is not None:
            raise InputError(f"{path}: {bad!r} in line {number} is not a number")
        numbers.append([float(text) for text in line])
    names = [name for column, name in enumerate(header or ()) if column not in where]
    return Rows(
        np.array(numbers, np.float32),
        None if header is None else tuple(names),
        _plain(np.array(labels)) if where else None,
    )


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


def _read_npy(path: Path, targets: Sequence[str]) -> Rows:
    return Rows(_loaded(path))


def _read_npz(path: Path, targets: Sequence[str]) -> Rows:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "inputs" not in arrays:
                raise InputError(f"{path} holds {', '.join(arrays) or 'nothing'}, not 'inputs'")
            inputs, names = arrays["inputs"], _labels_in(list(arrays), "labels", targets)
            given = {name: arrays[name] for name in names}
    except InputError:
        raise
    except Exception as error:  # damaged archives raise what their layer raises
        raise InputError(f"{path} cannot be read as NPZ: {error}") from None
    for name, labels in given.items():
        if labels.shape != inputs.shape[:1]:
            raise InputError(f"{path}: {name!r} of shape {labels.shape}, not one per example")
    labels = _plain(np.stack(list(given.values()), 1)) if given else None
    return Rows(_some(inputs, path), None, labels)


def _loaded(path: Path) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:  # damaged or foreign files raise what their layer raises
        raise InputError(f"{path} cannot be read as NPY: {error}") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is not an NPY file of one array")
    return _some(array, path)


def _some(array: np.ndarray, path: Path) -> np.ndarray:
    if array.ndim == 0 or len(array) == 0:
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
