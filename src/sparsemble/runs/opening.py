"""Opening what a run left: a path may name the run's folder or the saved ensemble itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import nn

from sparsemble.devices import usable_device
from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.loading import ensemble_folder, load_ensemble
from sparsemble.errors import InputError
from sparsemble.extensions import imported
from sparsemble.recipes.code import made_by
from sparsemble.runs.folder import RunFolder, is_run
from sparsemble.tasks import Task


def open_ensemble(
    saved: Path, code: Sequence[str] = (), device: str | torch.device = "cpu"
) -> Ensemble:
    """The ensemble of a finished run, or a saved one.

    Args:
        saved: The folder of either.
        code: What networks and tasks of the user's own are rebuilt with: the import paths of the
            function that makes the network and of the task's class.
        device: Where it computes.
    """
    usable = usable_device(device)
    folder = ensemble_folder(saved)
    if folder is None:
        if is_run(saved):
            raise InputError(f"{saved} holds a run that is not finished: sparsemble resume {saved}")
        raise InputError(f"{saved} is not a folder with a saved ensemble")
    task, factory, layout = None, None, None
    for path in _of_ensemble(saved, code):
        found = imported(path)
        if isinstance(found, type) and issubclass(found, Task):
            task = found
        else:
            factory, layout = partial(_network, path), made_by(path)[1]
    return load_ensemble(folder, factory=factory, layout=layout, task=task).to(usable)


def _of_ensemble(saved: Path, code: Sequence[str]) -> Sequence[str]:
    """The part of the code that an ensemble is rebuilt with; a run may name priors and others."""
    if not is_run(saved):
        return code
    needed = RunFolder(saved).ensemble_code()
    return [path for path in code if path in needed]


def _network(path: str) -> nn.Module:
    return made_by(path)[0]
