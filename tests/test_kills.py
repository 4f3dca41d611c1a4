"""A run killed at any instant resumes to the same bits: many kills in one folder, compared once."""

from __future__ import annotations

import multiprocessing
import os
import random
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from sparsemble.recipes import load_recipe
from sparsemble.stages import Observer

KILLS = 15
"""At least so many in each of the two runs, in both stages."""
RUNS = {
    "digits": {
        "chain.chains": 2,
        "chain.epochs": 60,
        "chain.burn_in": 20,
        "chain.interval": 20,
        "retrain.epochs": 60,
        "network.hidden": [40, 30],
    },
    "grammar": {
        "data.portion": 0.03,
        "network.hidden": [10, 8],
        "chain.epochs": 12,
        "chain.burn_in": 4,
        "chain.interval": 4,
        "retrain.epochs": 8,
        "chain.batch_size": 5,
        "retrain.batch_size": 5,
    },
}


class Begun(Observer):
    """Tells the parent when the first step is done: starting up should not count as living."""

    def __init__(self, ready: Event) -> None:
        self.ready = ready

    def stepped(self, chain, step, loss, save) -> None:
        self.ready.set()


def work(name: str, folder: Path, ready: Event) -> None:
    """What a child does: begin the run, or go on with it, saving often."""
    import torch

    from sparsemble.runs import keeper, learn

    torch.set_num_threads(1)
    keeper.CHECKPOINT_EVERY = 0.05
    recipe = load_recipe(name, RUNS[name])
    loaded = recipe.data.load()
    data = loaded[0] if isinstance(loaded, tuple) else loaded
    try:
        learn(
            lambda: recipe.network.build(data), data, recipe, folder=folder, observer=Begun(ready)
        )
    finally:
        ready.set()


def saved(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "ensemble").iterdir())}


@pytest.fixture(scope="module")
def children():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sparsemble.runs", "test_kills"])
    return context


class Child:
    """A child process at work, whose age is the processor time it has used for the run."""

    def __init__(self, children, name: str, folder: Path) -> None:
        ready = children.Event()
        self.process = children.Process(target=work, args=(name, folder, ready))
        self.process.start()
        ready.wait()
        self._born = self._used()

    @property
    def age(self) -> float:
        return self._used() - self._born

    def _used(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it is over
            return float("inf")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lives_to(self, age: float) -> bool:
        """Wait; is it still alive at that age? Load on the machine does not change the answer."""
        while self.process.is_alive():
            if self.age >= age:
                return True
            self.process.join(timeout=0.005)
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def lifetime(children, name: str, folder: Path) -> float:
    """The processor time of an undisturbed run."""
    child, age = Child(children, name, folder), 0.0
    while child.lives_to(age):
        age += 0.01
    assert child.process.exitcode == 0
    return age


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_killed_again_and_again_gives_the_same_bits(name, children, tmp_path):
    whole = lifetime(children, name, tmp_path / "whole")
    folder = tmp_path / "killed"
    chance = random.Random(name)
    kills = {"chain": 0, "retrain": 0}
    while (child := Child(children, name, folder)).lives_to(chance.uniform(0, whole / 16)):
        child.kill()
        retraining = (folder / "retrain" / "checkpoint.safetensors").exists()
        kills["retrain" if retraining else "chain"] += 1
    assert child.process.exitcode == 0
    assert min(kills.values()) > 0
    assert sum(kills.values()) >= KILLS
    assert saved(folder) == saved(tmp_path / "whole")
    assert not [path for path in folder.rglob(".*") if path.name != ".lock"]  # nothing is left over
