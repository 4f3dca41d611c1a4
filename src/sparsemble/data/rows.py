"""Rows of numbers from files: CSV with or without a header, NPY, NPZ.

A column called `label` holds what is to be predicted; in an NPZ file the arrays are `inputs` and,
if known, `labels`. Nothing in these files can run code: pickled arrays are refused.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsemble.errors import InputError

LABEL = "label"


@dataclass(frozen=True)
class Rows:
    """Inputs, one row per example; names of their columns and labels where the file has them."""

    inputs: np.ndarray
    names: tuple[str, ...] | None = None
    labels: np.ndarray | None = None


def read_rows(path: Path) -> Rows:
    """The rows of a file, by its ending."""
    readers = {".csv": _read_csv, ".npy": _read_npy, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: rows are read from {', '.join(readers)} files")
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    return reader(path)


def _read_csv(path: Path) -> Rows:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            start = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=";" if ";" in start and "," not in start else ",")
            lines = [(reader.line_num, line) for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}") from None
    header = lines.pop(0)[1] if lines and any(map(_is_word, lines[0][1])) else None
    if header is None and lines and _counts(lines[0][1]):
        lines.pop(0)  # the names that a table without names is written with
    if not lines:
        raise InputError(f"{path} holds no rows")
    width = len(lines[0][1]) if header is None else len(header)
    where = header.index(LABEL) if header is not None and LABEL in header else None
    numbers, labels = [], []
    for number, line in lines:
        if len(line) != width:
            raise InputError(f"{path}: line {number} has {len(line)} columns, not {width}")
        if where is not None:
            labels.append(line[where])
            line = line[:where] + line[where + 1 :]
        bad = next((text for text in line if not _is_number(text)), None)
        if bad is not None:
            raise InputError(f"{path}: {bad!r} in line {number} is not a number")
        numbers.append([float(text) for text in line])
    names = None if header is None else tuple(name for name in header if name != LABEL)
    return Rows(
        np.array(numbers, np.float32), names, np.array(labels) if where is not None else None
    )


def _read_npy(path: Path) -> Rows:
    return Rows(_loaded(path))


def _read_npz(path: Path) -> Rows:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "inputs" not in arrays:
                raise InputError(f"{path} holds {', '.join(arrays) or 'nothing'}, not 'inputs'")
            inputs, labels = arrays["inputs"], arrays.get("labels")
    except InputError:
        raise
    except Exception as error:  # damaged archives raise what their layer raises
        raise InputError(f"{path} cannot be read as NPZ: {error}") from None
    if labels is not None and labels.ndim != 1:
        raise InputError(f"{path}: 'labels' of shape {labels.shape}, not one per example")
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
    return bool(text.strip()) and not _is_number(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
