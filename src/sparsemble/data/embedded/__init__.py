"""Small data sets that come with the package; README.md beside names their sources."""

from __future__ import annotations

from importlib.resources import files

import numpy as np


def arrays(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The inputs, one row per example, and the targets of an embedded data set."""
    with files(__name__).joinpath(f"{name}.npz").open("rb") as file, np.load(file) as stored:
        return stored["inputs"], stored["targets"]
