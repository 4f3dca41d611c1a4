"""A run killed at any instant resumes to the same bits: many kills in one folder, compared once."""

from __future__ import annotations

import multiprocessing
import random
import signal
from pathlib import Path

import pytest

from small_runs import saved_ensemble
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.stages import Callback

pytestmark = pytest.mark.slow

KILLS = 3
"""In each stage of each run."""
LIFE = 1 / (2 * KILLS)
"""The longest part of a chain that a process lives for: all of them together leave half of it."""
LONG = 300
"""Seconds that no child needs, however busy the machine is."""
MOMENT = 0.01
"""Seconds: a few steps, or a checkpoint half written."""
RUNS = {
    "digits": {
        "chain.chains": 2,
        "chain.epochs": 12,
        "chain.burn_in": 4,
        "chain.interval": 4,
        "retrain.epochs": 12,
        "network.hidden": [40, 30],
    },
    "grammar": {
        "data.name": "text",
        "network.hidden": [10, 8],
        "chain.epochs": 12,
        "chain.burn_in": 4,
        "chain.interval": 4,
        "retrain.epochs": 8,
        "chain.batch_size": 5,
        "retrain.batch_size": 5,
    },
}


class Death(Callback):
    """Ends this process a moment after it has done a part of a chain of one stage.

    The kernel does it, at whatever instant that is. How far the run has come is counted in steps,
    so that a busy machine has no say in how often it is killed.
    """

    def __init__(self, stage: str, part: float, moment: float) -> None:
        self.stage = stage
        self.part = part
        self.moment = moment
        self.left: int | None = None

    def started(self, stage, chain, chains, done, total) -> None:
        if stage == self.stage and self.left is None:
            self.left = round(self.part * total)

    def stepped(self, chain, step, loss, save) -> None:
        if self.left is not None:
            if self.left == 0:
                signal.setitimer(signal.ITIMER_REAL, self.moment)
            self.left -= 1


def work(recipe: Recipe, folder: Path, callback: Callback) -> None:
    """What a child does: begin the run, or go on with it, saving often."""
    import torch

    from sparsemble.learning import learn
    from sparsemble.results.running import ingredients_of
    from sparsemble.runs import checkpointing

    torch.set_num_threads(1)
    checkpointing.CHECKPOINT_EVERY = 0.01
    given = ingredients_of(recipe)
    learn(given.network, given.split.train, recipe, folder=folder, callback=callback)


@pytest.fixture(scope="module")
def children():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sparsemble.results.running", "test_kills"])
    return context


def end_of(children, recipe: Recipe, folder: Path, callback: Callback) -> int:
    """The exit code of a child."""
    child = children.Process(target=work, args=(recipe, folder, callback))
    child.start()
    child.join(LONG)
    if child.exitcode is None:
        child.kill()
        pytest.fail(f"the child was still alive after {LONG} seconds")
    return child.exitcode


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.thorough  # `test_kill_everywhere.py` kills at instants that it chooses
@pytest.mark.parametrize("name", ["digits", "grammar"])
def test_a_run_killed_again_and_again_gives_the_same_bits(name, children, short_text, tmp_path):
    place = {"data.path": short_text} if name == "grammar" else {}
    recipe = load_recipe(name, RUNS[name] | place)
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    assert end_of(children, recipe, whole, Callback()) == 0
    chance = random.Random(name)
    for stage in ("chain", "retrain"):
        for _ in range(KILLS):
            death = Death(stage, chance.uniform(0, LIFE), chance.uniform(1e-6, MOMENT))
            assert end_of(children, recipe, folder, death) == -signal.SIGALRM
    assert end_of(children, recipe, folder, Callback()) == 0
    assert saved_ensemble(folder) == saved_ensemble(whole)
    assert not [path for path in folder.rglob(".*") if path.name != ".lock"]  # nothing is left over
