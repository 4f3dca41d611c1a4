"""Links: nothing inside a run folder or a saved ensemble is reached through one.

Such folders are handed around, and go on being written to: a link inside could make that overwrite,
or take for the run's own, what lies elsewhere. The folder itself may be a link.
"""

from __future__ import annotations

from pathlib import Path

from sparsemble.errors import CorruptFileError


def inside(folder: Path, *names: str) -> Path:
    """The path below `folder`, if no part of it is a symbolic link."""
    path = folder
    for name in names:
        path = path / name
        if path.is_symlink():
            raise CorruptFileError(
                f"{path} is a symbolic link, which may lead out of {folder}: put there what it "
                "points to, or remove it"
            )
    return path
