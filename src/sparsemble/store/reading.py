"""Files that may be anyone's, read with suspicion.

Whatever stands in the place of a file is opened without waiting for it, and read only if it is a
plain file, of a size that its kind can have: not a pipe, which may never answer, nor a device,
which may never end. JSON has a limit to its depth, too, so that nothing that walks through it
breaks.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sparsemble.errors import CorruptFileError, InputError
from sparsemble.store.limits import LEVELS


@contextmanager
def opened(path: Path, limit: int, *, remedy: str = "") -> Iterator[tuple[BinaryIO, int]]:
    """A plain file of at most `limit` bytes, and its size."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read: {why}") from None
    try:
        size = _plain_size(path, os.fstat(handle), limit, remedy)
    except BaseException:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        yield file, size


def _plain_size(path: Path, found: os.stat_result, limit: int, remedy: str) -> int:
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} cannot be read: it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise CorruptFileError(f"{path} is a device or a pipe, not a file")
    if found.st_size > limit:
        raise CorruptFileError(
            f"{path} has {found.st_size:,} bytes, which is too large to be what it should be "
            f"({limit:,} at most{remedy and f'; {remedy}'})"
        )
    return found.st_size


def read_plain(path: Path, limit: int) -> bytes:
    """All of a plain file."""
    with opened(path, limit) as (file, size):
        return file.read(size)


def read_text(path: Path, limit: int) -> str:
    """All of a plain file as text."""
    try:
        return read_plain(path, limit).decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} cannot be read as text: byte {error.start + 1} is not of UTF-8"
        ) from None


def parsed_json(content: bytes | str, source: str) -> Any:
    """What JSON says, if it is not nested too deeply."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise CorruptFileError(f"{source} is not JSON: damaged or foreign") from None
    if is_deep(value):
        raise CorruptFileError(f"{source} is nested more than {LEVELS} levels deep")
    return value


def is_deep(value: Any) -> bool:
    """Is there anything below the last level? Level by level, not to be caught by depth itself."""
    level = [value]
    for _ in range(LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
