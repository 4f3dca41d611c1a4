"""Opening what a run left: a path may name the run's folder or the saved ensemble itself."""

from __future__ import annotations

from pathlib import Path

from sparsemble.ensemble import BaseEnsemble
from sparsemble.ensemble.saving import ensemble_folder, load_ensemble
from sparsemble.errors import InputError
from sparsemble.recipes.code import made_by


def open_ensemble(saved: Path, code: str | None = None) -> BaseEnsemble:
    """The ensemble of a finished run, or a saved one, of whatever kind.

    Networks of the user's own need `code`, the import path of the function that makes them.
    """
    folder = ensemble_folder(saved)
    if folder is None:
        if (saved / "run.json").is_file():
            raise InputError(f"{saved} holds a run that is not finished: sparsemble resume {saved}")
        raise InputError(f"{saved} is not a folder with a saved ensemble")
    if code is None:
        return load_ensemble(folder)
    _, layout = made_by(code)
    return load_ensemble(folder, factory=lambda: made_by(code)[0], layout=layout)
