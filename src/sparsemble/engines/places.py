"""Folders that jobs work in: the asker's own where they see it, else one of theirs, sent back."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparsemble.store import inside, write_atomically

_MARK = ".seen-"
_LAST = ("manifest.json", "checkpoint.safetensors", "result.json")
"""What says that everything else is there."""
Files = dict[str, bytes]
"""By their paths inside a folder."""


@dataclass(frozen=True)
class Place:
    """A folder of the asker's; whoever sees the `mark` in it sees the folder."""

    folder: Path
    mark: str

    @property
    def is_seen(self) -> bool:
        """Is the folder here the same one?"""
        return (self.folder / self.mark).is_file()


def remove_marks(folder: Path) -> None:
    """Remove the marks that kills left in a folder where nobody has jobs."""
    for left in folder.glob(f"{_MARK}*"):
        left.unlink(missing_ok=True)


@contextmanager
def marked(folder: Path) -> Iterator[Place]:
    """A folder with a mark in it for a while."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    remove_marks(folder)
    place = Place(folder, f"{_MARK}{secrets.token_hex(8)}")
    mark = inside(folder, place.mark)
    mark.touch()
    try:
        yield place
    finally:
        mark.unlink(missing_ok=True)


@dataclass(frozen=True)
class Worked:
    """A folder that a job works in, and what was in it before, if that has to be sent back."""

    folder: Path
    sent: Files | None

    def results(self) -> Files:
        """What is new in it; nothing if the asker sees it."""
        if self.sent is None:
            return {}
        now = files_in(self.folder)
        return {name: content for name, content in now.items() if self.sent.get(name) != content}


@contextmanager
def worked_in(place: Place, sent: Files) -> Iterator[Worked]:
    """The place itself, or a folder that begins with what was sent."""
    if place.is_seen:
        yield Worked(place.folder, None)
        return
    with tempfile.TemporaryDirectory(prefix="sparsemble-") as elsewhere:
        write_files(Path(elsewhere), sent)
        yield Worked(Path(elsewhere), sent)


def files_in(folder: Path, patterns: Sequence[str] = ("**/*",)) -> Files:
    """The files of a folder that patterns fit, but for hidden ones."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for pattern in patterns
        for path in folder.glob(pattern)
        if path.is_file() and not path.name.startswith(".")
    }


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a folder; a kill leaves nothing that says more than is there."""

    def rank(name: str) -> int:
        own = Path(name).name
        return _LAST.index(own) if own in _LAST else -1

    for name in sorted(files, key=rank):
        write_atomically(inside(folder, *Path(name).parts), files[name])
