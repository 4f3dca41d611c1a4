"""Arrays as NPY files and the members of NPZ files hold them, some rows at a time.

The header says what follows: no more than its shape and type ask for is ever read, however much a
compressed member would unfold to, and nothing that could run code is. Rows that stand beside each
other in the file are read as they come. Where the columns do instead (Fortran order), each is read
in pieces; what cannot be read in any order, as a pipe and a compressed member, is first copied to
a temporary file.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO

import numpy as np
from numpy.lib import format as npy

from sparsemble.errors import InputError

AT_ONCE = 4096
"""Rows that are computed together,"""
_BYTES_AT_ONCE = 64 << 20
"""unless they would take more than this;"""
STACKED = 512
"""then as many of these as fit: members take so many at a time at most."""
_MOST_ROW = 256 << 20
"""Bytes of one row, at most."""
_MOST_COPIED = 8 << 30
"""Bytes of an array that is copied to a temporary file, at most."""
_COPIED_AT_ONCE = 1 << 20


def rows_at_once(row_bytes: int) -> int:
    """How many rows are read and computed together.

    >>> rows_at_once(4 * 784), rows_at_once(4 * 10_000), rows_at_once(100 << 20)
    (4096, 1536, 1)
    """
    fitting = _BYTES_AT_ONCE // max(row_bytes, 1)
    if fitting < STACKED:
        return max(fitting, 1)
    return min(fitting // STACKED * STACKED, AT_ONCE)


class ArrayStream:
    """An array that is read from its first row to its last.

    Args:
        file: Where its header begins.
        source: What it is called, for messages.
    """

    def __init__(self, file: IO[bytes], source: str) -> None:
        self._file, self._source = file, source
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        version = npy.read_magic(file)
        if version not in readers:
            raise ValueError(f"version {version} of the format is not read")
        self.shape, self._by_columns, self.dtype = readers[version](file)
        if self.dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        if any(size < 0 for size in self.shape):
            raise ValueError(f"shape {self.shape}")
        self.row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        if self.row_bytes > _MOST_ROW:
            raise InputError(
                f"{source}: rows of shape {self.shape[1:]} take {self.row_bytes / (1 << 20):,.0f} "
                f"MiB each, the most is {_MOST_ROW >> 20} MiB"
            )

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def parts(self, rows: int) -> Iterator[np.ndarray]:
        """All rows, so many at a time."""
        if self._by_columns and len(self.shape) > 1:
            yield from self._across_columns(rows)
        else:
            for start in range(0, len(self), rows):
                count = min(rows, len(self) - start)
                found = np.frombuffer(self._read(count * self.row_bytes), self.dtype)
                yield found.reshape(count, *self.shape[1:])
        if isinstance(self._file, zipfile.ZipExtFile) and self._file.read(1):
            raise ValueError("an array holds more than its header says")

    def _across_columns(self, rows: int) -> Iterator[np.ndarray]:
        with ExitStack() as opened:
            file, begin = self._file, 0
            if isinstance(file, zipfile.ZipExtFile) or not file.seekable():
                file = opened.enter_context(tempfile.TemporaryFile())
                self._copy_to(file)
            else:
                begin = file.tell()
            width, size = math.prod(self.shape[1:]), self.dtype.itemsize
            for start in range(0, len(self), rows):
                count = min(rows, len(self) - start)
                columns = np.empty((width, count), self.dtype)
                for place in range(width):
                    file.seek(begin + (place * len(self) + start) * size)
                    columns[place] = np.frombuffer(_exactly(file, count * size), self.dtype)
                # The last dimension varies slowest: backwards, it is the usual order.
                turned = columns.T.reshape(count, *self.shape[:0:-1])
                yield np.ascontiguousarray(turned.transpose(0, *range(len(self.shape) - 1, 0, -1)))

    def _copy_to(self, file: IO[bytes]) -> None:
        left = len(self) * self.row_bytes
        if left > _MOST_COPIED:
            raise InputError(
                f"{self._source}: an array of {left / (1 << 30):,.0f} GiB in Fortran order can "
                "only be read from an NPY file: save it there, or in C order (np.ascontiguousarray)"
            )
        while left:
            piece = self._read(min(left, _COPIED_AT_ONCE))
            file.write(piece)
            left -= len(piece)

    def _read(self, count: int) -> bytes:
        return _exactly(self._file, count)


def _exactly(file: IO[bytes], count: int) -> bytes:
    """So many bytes, or an error: a pipe may give them in pieces."""
    found = file.read(count)
    while len(found) < count:
        more = file.read(count - len(found))
        if not more:
            raise ValueError("it ends before its last row")
        found += more
    return found


class Archive:
    """The arrays of an NPZ file by their names.

    Args:
        file: The file, which can be read in any order.
        source: What it is called, for messages.
    """

    def __init__(self, file: IO[bytes], source: str) -> None:
        self._zip, self._source = zipfile.ZipFile(file), source
        self._members = {name.removesuffix(".npy"): name for name in self._zip.namelist()}

    @property
    def names(self) -> list[str]:
        """What they are called."""
        return list(self._members)

    def array(self, name: str) -> ArrayStream:
        """One of them, to be read beside the others."""
        return ArrayStream(self._zip.open(self._members[name]), f"{self._source}, array {name!r}")
