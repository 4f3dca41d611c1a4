"""What keeping a run costs: the share of an MNIST run's time spent on its folder."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from sparsemble.errors import SparsembleError
from sparsemble.recipes import load_recipe
from sparsemble.results import run_recipe
from sparsemble.runs import PartFolder

RECIPE = "mnist-sgld-gsp-96"
SHORTER = {"chain.epochs": 18, "chain.burn_in": 9, "chain.interval": 3, "retrain.epochs": 10}
"""Samples as close together as in the recipe itself; retraining in proportion."""


class Stopwatch:
    """Adds up the time of the calls it is wrapped around."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start
                self.calls += 1

        return timed


def measure() -> None:
    """Run the shortened recipe in a folder."""
    torch.set_num_threads(1)
    stopwatch = Stopwatch()
    writing = {
        name: stopwatch.around(getattr(PartFolder, name))
        for name in ("save_checkpoint", "save_sample", "record")
    }
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, patch.multiple(PartFolder, **writing):
        try:
            run_recipe(load_recipe(RECIPE, SHORTER), Path(folder))
        except SparsembleError as error:
            print(f"checkpointing / run: not measured ({error})")
            return
    total = time.perf_counter() - start
    print(
        f"checkpointing / run, {RECIPE} shortened: {stopwatch.seconds / total:.4f} "
        f"({stopwatch.calls} writes in {stopwatch.seconds:.2f} s, {total:.0f} s on 1 thread, "
        "wanted at most 0.03)",
        flush=True,
    )
