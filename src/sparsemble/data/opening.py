"""Files and pipes, opened to be read once from their beginning, of whatever length.

What a pipe holds is told by how it begins, since it has no ending. No line may be longer than a
limit: whoever reads line by line then needs no more memory than that. A device that never ends, and
a folder, are refused before anything is read.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

from sparsemble.errors import InputError

MOST_LINE = 16 << 20
"""Bytes of a line, at most."""
_BEGINNINGS = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet"}
_LONGEST = max(map(len, _BEGINNINGS))
_NAMELESS = ("/dev/", "/proc/")
"""Where the system keeps what a shell gives a command to read, by number."""
_BUFFER = 1 << 18


class Opened(io.BufferedReader):
    """A file that is being read, and what is known of it.

    Args:
        path: What the user called it.
    """

    def __init__(self, path: Path) -> None:
        _check_readable(path)
        try:
            raw = path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        self.path = path
        self._lines = _Lines(raw, path)
        super().__init__(self._lines, _BUFFER)

    def limit_lines(self, most: int | None) -> None:
        """Refuse lines with more bytes than these from here on, or none: there are no lines."""
        self._lines.most = most

    def ending(self, known: Collection[str], what: str) -> str:
        """The ending that says what it holds; of a pipe without one, by how it begins.

        Args:
            known: Endings that can be read.
            what: What is read from such files, for messages.
        """
        own = self.path.suffix.lower()
        if not own and _is_nameless(self.path):
            begins = self.peek(_LONGEST)
            own = next((e for mark, e in _BEGINNINGS.items() if begins.startswith(mark)), ".csv")
        if own not in known:
            raise InputError(f"{self.path}: {what} are read from {', '.join(known)} files")
        return own


def can_be_read_again(path: Path) -> bool:
    """Is it a file, rather than a pipe, which gives what it holds once?"""
    return path.is_file()


def check_ending(path: Path, known: Collection[str], what: str) -> None:
    """Refuse a name whose ending says that it holds something else, before it is looked for."""
    if path.suffix.lower() not in known and not _is_nameless(path):
        raise InputError(f"{path}: {what} are read from {', '.join(known)} files")


def seekable(file: BinaryIO, path: Path, kind: str) -> BinaryIO:
    """A file that is not read from its beginning to its end, which a pipe must be."""
    if not file.seekable():
        raise InputError(
            f"{path}: {kind} cannot be read from a pipe, as it says at its end where things are: "
            "name the file itself"
        )
    return file


def _is_nameless(path: Path) -> bool:
    """Is it something without a name of its own: a pipe, or what a number stands for?"""
    return not path.suffix and (path.is_fifo() or str(path).startswith(_NAMELESS))


def _check_readable(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder: name a file in it")
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not _is_terminal(path)):
        raise InputError(f"{path} is a device, which may have no end: name a file or a pipe")


def _is_terminal(path: Path) -> bool:
    """Somebody who types, and can say that it is all."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.isatty(number)
    finally:
        os.close(number)


class _Lines(io.RawIOBase):
    """A file's bytes, until a line is too long."""

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        self._raw, self._path = raw, path
        self.most: int | None = MOST_LINE
        self._line, self._length = 1, 0
        self._begun = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        # No longer than a line may be: only the first line in it can then be too long.
        buffer = memoryview(buffer)[: self.most]
        count = self._raw.readinto(buffer) or 0
        # A pipe may give less than is asked for: its beginning has to tell what it holds.
        while not self._begun and 0 < count < min(_LONGEST, len(buffer)):
            more = self._raw.readinto(buffer[count:]) or 0
            count, self._begun = count + more, more == 0
        self._begun = True
        if self.most is not None:
            self._count_lines(bytes(buffer[:count]), self.most)
        return count

    def _count_lines(self, read: bytes, most: int) -> None:
        last = max(read.rfind(b"\n"), read.rfind(b"\r"))
        if last < 0:
            self._length += len(read)
        else:
            first = min(p for p in (read.find(b"\n"), read.find(b"\r")) if p >= 0)
            self._length += first
            self._check(most)
            self._line += max(read.count(b"\n"), read.count(b"\r"))
            self._length = len(read) - last - 1
        self._check(most)

    def _check(self, most: int) -> None:
        if self._length > most:
            raise InputError(
                f"{self._path}: line {self._line} is longer than {most / (1 << 20):g} MiB, the "
                "most that a line may have: break it up, or give the file in another form"
            )
