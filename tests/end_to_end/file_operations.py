"""Every call by which a process changes files, counted; at one of them the process is killed.

What a kill can leave on disk changes only with such a call. So a process that has been killed just
before each of them, and amid each write, has been killed in every way that matters. The
interpreter's own audit tells of calls that went past the counting, so that none is forgotten.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn

Manner = Literal["before", "amid"]

_ON_PATHS = (
    *("chmod", "link", "mkdir", "remove", "rename", "replace"),
    *("rmdir", "symlink", "truncate", "unlink", "utime"),
)
_ON_HANDLES = ("fsync", "ftruncate", "write")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_AUDITED = frozenset(
    f"os.{name}"
    for name in ("chmod", "link", "mkdir", "remove", "rename", "rmdir", "symlink", "truncate")
) | {"open"}


class Operations:
    """Counts what this process changes below a folder, from `watch` on; it cannot be undone.

    Args:
        folder: Below which changes count.
        at: The number of the operation that the process is killed at, from 1; `None`: at none.
        manner: Is it killed before that operation or amid it, a write half done?
    """

    def __init__(self, folder: Path, at: int | None = None, manner: Manner = "before") -> None:
        self.seen: list[str] = []
        """What was done, in order, in words."""
        self.missed: list[str] = []
        """What went past the counting."""
        self._folder = os.path.abspath(folder)
        self._at = at
        self._manner = manner
        self._counting = False
        self._handles: set[int] = set()

    def watch(self, audit: Callable[[Callable[[str, Any], None]], None]) -> None:
        """Count from now on; `audit` is `sys.addaudithook`."""
        for name in _ON_PATHS:
            setattr(os, name, self._on_path(name, getattr(os, name)))
        for name in _ON_HANDLES:
            setattr(os, name, self._on_handle(name, getattr(os, name)))
        os.open = self._opening_handles(os.open)
        io.open = builtins.open = self._opening_files(io.open)
        audit(self._audited)

    def counted(
        self, what: str, do: Callable[[], Any], half: Callable[[], Any] | None = None
    ) -> Any:
        """Do it, unless this is where the process ends."""
        self.seen.append(what)
        last = len(self.seen) == self._at
        if last and self._manner == "before":
            _die()
        self._counting = True
        try:
            done = (half or do)() if last else do()
        finally:
            self._counting = False
        if last:
            _die()
        return done

    def _is_inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return path in self._handles
        return os.path.abspath(os.fsdecode(path)).startswith(self._folder)

    def _on_path(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def operation(path: Any, *more: Any, **how: Any) -> Any:
            changes_nothing = name == "mkdir" and os.path.isdir(path)
            if not self._is_inside(path) or changes_nothing:
                return own(path, *more, **how)
            return self.counted(f"{name} {path}", lambda: own(path, *more, **how))

        return operation

    def _on_handle(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def operation(handle: int, *more: Any) -> Any:
            if name != "fsync" and handle not in self._handles:
                return own(handle, *more)
            half = None
            if name == "write":
                half = lambda: own(handle, more[0][: len(more[0]) // 2])  # noqa: E731
            return self.counted(f"{name} {handle}", lambda: own(handle, *more), half)

        return operation

    def _opening_handles(self, own: Callable[..., int]) -> Callable[..., int]:
        def opening(path: Any, flags: int, *more: Any, **how: Any) -> int:
            if not flags & _WRITING or not self._is_inside(path):
                return own(path, flags, *more, **how)
            handle: int = self.counted(f"open {path}", lambda: own(path, flags, *more, **how))
            self._handles.add(handle)
            return handle

        return opening

    def _opening_files(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def opening(path: Any, mode: str = "r", *more: Any, **how: Any) -> Any:
            if not set(mode) & set("wax+") or not self._is_inside(path):
                return own(path, mode, *more, **how)
            file = self.counted(f"open {path}", lambda: own(path, mode, *more, **how))
            return _Written(file, f"write {path}", self)

        return opening

    def _audited(self, event: str, arguments: Any) -> None:
        if event not in _AUDITED or self._counting or not isinstance(arguments[0], str | bytes):
            return
        if event == "open" and not arguments[2] & _WRITING:
            return
        if event == "os.mkdir" and os.path.isdir(arguments[0]):
            return
        if self._is_inside(arguments[0]):
            self.missed.append(f"{event} {arguments[0]!r}")


class _Written:
    """A file that was opened for writing; what is written to it counts."""

    def __init__(self, file: Any, what: str, operations: Operations) -> None:
        self._file = file
        self._what = what
        self._operations = operations

    def write(self, content: Any) -> int:
        def half() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        written: int = self._operations.counted(self._what, lambda: self._file.write(content), half)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def _die() -> NoReturn:
    """As if the machine's memory had run out: nothing is flushed, nobody is told."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes on")
