"""What a run folder's recipe may use of the machine it is on: only what the user names again.

A folder may come from anybody, and so may the code and the files that its recipe names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparsemble.errors import InputError
from sparsemble.recipes.recipe import Recipe


def check_named(
    recipe: Recipe, source: str, *, code: Sequence[str], files: Sequence[Path] = ()
) -> None:
    """Raise `InputError` unless the user named all that a recipe from `source` would use.

    Args:
        recipe: As the folder has it.
        source: What messages call the folder.
        code: Import paths that the user named.
        files: Files that the user named, or folders that hold what is read.
    """
    if missing := [path for path in recipe.code if path not in code]:
        raise InputError(
            f"{source} runs code of your own: name it with "
            + " ".join(f"--code {path}" for path in missing)
        )
    allowed = [path.absolute() for path in files]
    unnamed = [own for own in recipe.files if not any(own.is_relative_to(path) for path in allowed)]
    if unnamed:
        raise InputError(
            f"{source} reads files outside of it: if you mean these, say "
            + " ".join(f"--read {path}" for path in unnamed)
        )
