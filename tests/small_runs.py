"""A small problem with everything `learn` needs, and callbacks that kill a run on its way."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from scenarios import QUICK
from sparsemble.data import digits
from sparsemble.learning import Learned, learn
from sparsemble.priors import GroupSparse
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.samplers import Constant, Exponential, SGLDSettings
from sparsemble.stages import Callback, ChainSettings, PruneSettings, RetrainSettings
from sparsemble.structure import Family, Layout, Matrix, Role, Slot, Space, SpaceKind


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Three hundred rows of eight numbers, of three classes that the first three numbers decide."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 8)).astype(np.float32)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).astype(int) + (inputs[:, 2] > 0)
    return inputs, targets


def network() -> nn.Sequential:
    """A network for them, always with the same weights."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))


class Shifted(nn.Module):
    """Has a parameter that belongs to no layer, so that nobody knows how it is made anew."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(8))
        self.first, self.last = nn.Linear(8, 24), nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x + self.shift)))


def recipe(**changes: Any) -> Recipe:
    """Three members in half a second."""
    fields = {
        "seed": 1,
        "prior": GroupSparse(penalty=1e-3),
        "chain": ChainSettings(
            sampler=SGLDSettings(temperature=0.01),
            schedule=Constant(lr=0.3),
            batch_size=25,
            epochs=20,
            burn_in=8,
            interval=4,
        ),
        "prune": PruneSettings(sparsity=0.7),
        "retrain": RetrainSettings(
            schedule=Exponential(lr=0.3, factor=1.1), epochs=10, batch_size=25
        ),
    }
    return Recipe(**(fields | changes))


def predictions(learned: Learned, arrays: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """By which two runs are compared."""
    return learned.ensemble.predict_proba(arrays[0])


class Gate(nn.Module):
    """A module of one's own: `y = V(sigmoid(Ax + a) · tanh(Bx + b)) + c`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 20)
        self.value = nn.Linear(8, 20)
        self.out = nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.sigmoid(self.gate(x)) * torch.tanh(self.value(x)))


def gate_layout() -> Layout:
    """`Gate` by hand: one group per hidden unit, holding all weights it owns."""
    own = (
        Slot("gate.weight", 0, "hidden", Role.PRODUCER),
        Slot("value.weight", 0, "hidden", Role.PRODUCER),
        Slot("out.weight", 1, "hidden", Role.CONSUMER),
    )
    return Layout(
        spaces=(
            Space("inputs", 8, SpaceKind.INPUT),
            Space("hidden", 20),
            Space("outputs", 3, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("gate.weight", 1, "inputs", Role.CONSUMER),
            Slot("value.weight", 1, "inputs", Role.CONSUMER),
            *own,
            Slot("gate.bias", 0, "hidden", Role.BIAS),
            Slot("value.bias", 0, "hidden", Role.BIAS),
            Slot("out.weight", 0, "outputs", Role.PRODUCER),
            Slot("out.bias", 0, "outputs", Role.BIAS),
        ),
        families=(Family("units", own),),
        matrices=(
            Matrix("gate", ("gate.weight",)),
            Matrix("value", ("value.weight",)),
            Matrix("out", ("out.weight",)),
        ),
    )


class Killed(BaseException):
    """What a run is ended by: nothing catches it."""


class KillAt(Callback):
    """Kills a run at one step of a stage, of one chain if that is said."""

    def __init__(self, stage: str, step: int, chain: int | None = None) -> None:
        self.at = (stage, step)
        self.chain = chain
        self.stage = ""

    def started(self, stage, chain, chains, done, total) -> None:
        self.stage = stage

    def stepped(self, chain, step, loss, save) -> None:
        if (self.stage, step) == self.at and self.chain in (None, chain):
            raise Killed


class Deadly(Dataset):
    """Examples that end the process of a worker, like one that is out of memory, twice in all.

    Each time it is in the middle of an epoch, and another process has to begin that chain again.
    """

    def __init__(self, arrays: tuple[np.ndarray, np.ndarray], folder: Path) -> None:
        self.arrays = arrays
        self.starter = os.getpid()
        self.marks = [folder / "first", folder / "second"]
        self.given = 0

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        self.given += 1
        if os.getpid() != self.starter and self.given % 1000 == 0:
            self._end_once()
        return self.arrays[0][number], self.arrays[1][number]

    def _end_once(self) -> None:
        for mark in self.marks:
            with suppress(FileExistsError):
                mark.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)


def quick_run(folder: Path, callback: Callback | None = None, **how: Any) -> Learned:
    """The recipe `digits`, as quick as can be, in a folder."""
    chosen = load_recipe("digits", QUICK)
    return learn(
        lambda: chosen.network.build(64, 10),
        digits()[0],
        chosen,
        folder=folder,
        callback=callback,
        **how,
    )


def saved_ensemble(folder: Path) -> dict[str, bytes]:
    """The files of a run's ensemble, bit by bit."""
    return {path.name: path.read_bytes() for path in sorted((folder / "ensemble").iterdir())}
