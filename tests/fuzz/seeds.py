"""What is whole, to be spoiled: ensembles of every kind, runs, recipes, inputs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from deployed_kinds import KINDS
from scenarios import QUICK
from sparsemble.recipes import builtin_names, load_recipe, recipe_toml
from sparsemble.recipes.baselines import baseline_of
from sparsemble.results.beside import run_compared
from sparsemble.results.running import run_recipe
from sparsemble.runs import RunFolder
from sparsemble.stages import Callback, ChainState

RUNS = {
    "digits": QUICK | {"network.hidden": [12, 8], "chain.epochs": 2, "chain.burn_in": 0},
    "grammar": {
        "baseline": None,
        "data.portion": 0.02,
        "network.hidden": [5, 4],
        "chain.epochs": 2,
        "chain.burn_in": 0,
        "chain.interval": 1,
        "retrain.epochs": 1,
    },
    "diabetes": QUICK | {"network.hidden": [6], "chain.epochs": 4, "chain.burn_in": 0},
}
"""Changes to recipes that make a run of them take a moment."""


class _Stopped(Callback):
    """Ends a run on its way, as a kill would."""

    def __init__(self, after: int) -> None:
        self._left = after

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


@dataclass(frozen=True)
class Seeds:
    """Folders and files that are whole."""

    ensembles: dict[str, Path]
    runs: dict[str, Path]
    recipes: dict[str, dict[str, object]]
    inputs: dict[str, list[Path]]
    """By the name of the ensemble that they are for."""


FEW = ("classes", "numbers with learned noise", "pictures", "an LSTM language model")
"""Ensembles that are made in a moment."""


def made_in(folder: Path, *, few: bool = False) -> Seeds:
    """All of them, or few, always the same; what is there already is not made again."""
    torch.manual_seed(0)
    ensembles = {}
    for name, make in KINDS.items():
        if few and name not in FEW:
            continue
        ensembles[name] = folder / "ensembles" / name.replace(" ", "-")
        if not ensembles[name].is_dir():
            make().save(ensembles[name])
    recipes = {name: tomllib.loads(recipe_toml(name)) for name in builtin_names()}
    inputs = {name: own for name, own in _inputs(folder / "inputs").items() if name in ensembles}
    return Seeds(ensembles, _runs(folder / "runs"), recipes, inputs)


def _runs(folder: Path) -> dict[str, Path]:
    made = {}
    for name, changes in RUNS.items():
        made[name] = folder / name
        run_recipe(load_recipe(name, changes), made[name])
    made["compared"] = _compared(folder / "compared")
    made["under way"] = folder / "under-way"
    if not made["under way"].is_dir():
        with suppress(KeyboardInterrupt):
            under_way = load_recipe("digits", RUNS["digits"])
            run_recipe(under_way, made["under way"], callback=_Stopped(50))
    return made


def _compared(folder: Path) -> Path:
    """A run beside a dense network, which is trained first so that no process has to be started."""
    recipe = load_recipe("digits", {**RUNS["digits"], "baseline": "1"})
    dense = baseline_of(recipe)
    assert dense is not None
    folder.mkdir(parents=True, exist_ok=True)
    short = dense.model_copy(update={"chain": dense.chain.model_copy(update={"epochs": 4})})
    run_recipe(short, RunFolder(folder).baseline)
    run_compared(recipe, short, folder, console=Console(quiet=True))
    return folder


def _inputs(folder: Path) -> dict[str, list[Path]]:
    """Rows for `classes`, whose columns have names, and for the others as they take them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    table = folder / "rows.csv"
    head = "age,height,weight,pulse,blood,sleep"
    table.write_text(
        "\n".join([head, *(",".join(f"{number:.4f}" for number in row) for row in rows)]) + "\n"
    )
    np.save(folder / "rows.npy", rows)
    np.savez(folder / "rows.npz", inputs=rows)
    np.savez_compressed(folder / "labelled.npz", inputs=rows, targets=np.arange(5) % 3)
    text = folder / "text.txt"
    text.write_text("a b c d\ne f g h i j\nj i h g\n")
    arrays = [table, folder / "rows.npy", folder / "rows.npz", folder / "labelled.npz"]
    return {
        "classes": arrays,
        "numbers with learned noise": arrays,
        "an LSTM language model": [text],
        "a Transformer language model": [text],
    }
