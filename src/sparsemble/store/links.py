"""Links and pipes: inside a run folder or a saved ensemble only files and folders are used.

Such folders are handed around, and go on being written to: a link inside could make that overwrite,
or take for the run's own, what lies elsewhere; a pipe would have it wait for ever. The folder
itself may be a link.
"""

from __future__ import annotations

import stat
from pathlib import Path

from sparsemble.errors import CorruptFileError


def inside(folder: Path, *names: str) -> Path:
    """The path below `folder`, if every part of it that is there is a plain file or a folder."""
    path = folder
    for name in names:
        path = path / name
        try:
            mode = path.lstat().st_mode
        except OSError:  # not there, or not to be seen: whoever opens it says so
            continue
        if stat.S_ISLNK(mode):
            raise CorruptFileError(
                f"{path} is a symbolic link, which may lead out of {folder}: put there what it "
                "points to, or remove it"
            )
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise CorruptFileError(f"{path} is neither a file nor a folder: remove it")
    return path
