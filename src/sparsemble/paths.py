"""Paths as people give them: an empty one is refused, which Python takes for the current folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparsemble.errors import InputError


def named(path: Any) -> Any:
    """The path, if it can be the name of a file or folder; anything but a text is handed on.

    >>> named("runs/digits")
    'runs/digits'
    >>> named("")
    Traceback (most recent call last):
    sparsemble.errors.InputError: the path is empty: name a file or folder (. is the one you are in)
    """
    if isinstance(path, str | Path) and "\0" in str(path):
        raise InputError(f"the path {str(path)!r} has a zero byte in it: no file can be called so")
    if path == "":
        raise InputError("the path is empty: name a file or folder (. is the one you are in)")
    return path


def named_in_utf8(path: Path, library: str) -> str:
    """The path's name for a library that knows no other names, as many of C++ do.

    >>> named_in_utf8(Path("runs"), "Arrow")
    'runs'
    """
    name = str(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: {library} only takes names that are UTF-8: rename it, or use another folder"
        ) from None
    return name
