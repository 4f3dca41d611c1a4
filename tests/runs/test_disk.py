"""Disk space: told and checked before a run begins; a full disk loses nothing."""

from __future__ import annotations

import errno
import os
from functools import partial
from types import SimpleNamespace

import pytest

from scenarios import QUICK
from small_runs import quick_run, saved_ensemble
from sparsemble.data import digits
from sparsemble.errors import DiskFullError, InputError
from sparsemble.learning import learn
from sparsemble.recipes import load_recipe
from sparsemble.runs.disk import disk_needed
from sparsemble.stages import Callback


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The ensemble of a run nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    quick_run(folder)
    return saved_ensemble(folder)


@pytest.mark.slow
@pytest.mark.parametrize("writes", [1, 2, 4, 7])
def test_a_full_disk_stops_the_run_and_loses_nothing(writes, tmp_path, whole, monkeypatch):
    done = 0

    def fsync(handle, real=os.fsync):
        nonlocal done
        done += 1
        if done > 2 * writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr("sparsemble.store.files.os.fsync", fsync)
        with pytest.raises(DiskFullError, match="no space left to write"):
            quick_run(tmp_path)
    assert not [p for p in tmp_path.rglob(".*") if p.name != ".lock"]  # nothing half-written
    quick_run(tmp_path)
    assert saved_ensemble(tmp_path) == whole


def test_a_run_that_could_fill_the_disk_does_not_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sparsemble.runs.disk.shutil.disk_usage", lambda _: SimpleNamespace(free=10_000)
    )
    with pytest.raises(InputError, match=r"may grow by \d+ MB, but the disk has only 0 MB left"):
        quick_run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("chains", [1, 3])
def test_what_a_run_may_take_is_told_and_not_exceeded(tmp_path, chains):
    class Plan(Callback):
        def planned(self, folder, needed):
            self.folder, self.needed = folder, needed

    plan = Plan()
    many = {"chain.chains": chains, "chain.collection": "means", "prune.sparsity": 0.99}
    recipe = load_recipe("digits", QUICK | many).model_copy(update={"retrain": None})
    network = partial(recipe.network.build, 64, 10)
    learn(network, digits()[0], recipe, folder=tmp_path, callback=plan)
    taken = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert plan.folder == tmp_path
    assert taken <= plan.needed <= 20 * taken


def test_a_run_goes_on_where_the_disk_has_room_for_the_rest(tmp_path, monkeypatch):
    quick_run(tmp_path / "run")
    taken = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    recipe = load_recipe("digits", QUICK)
    needed = disk_needed(recipe.network.build(64, 10), recipe, 29)
    free = SimpleNamespace(free=needed - taken + 1000)
    monkeypatch.setattr("sparsemble.runs.disk.shutil.disk_usage", lambda _: free)
    quick_run(tmp_path / "run")
    with pytest.raises(InputError, match="may grow by"):
        quick_run(tmp_path / "other")


def test_a_language_models_disk_space_is_that_of_one_retraining_at_a_time():
    recipe = load_recipe("grammar")
    network = recipe.network.build(234, 234)
    weights = 4 * sum(p.numel() for p in network.parameters())
    # Four samples, two checkpoints of three states of the chain, three ensembles of a quarter,
    # four retrained members, and two checkpoints of the one under way.
    assert disk_needed(network, recipe, 150) == (4 + 6 + 3 + 4 + 6) * weights


@pytest.mark.parametrize("sampler", ["sgld", "sghmc", "psgld"])
@pytest.mark.parametrize("collection", ["thinned", "means"])
def test_a_checkpoint_and_the_one_that_replaces_it_are_as_large_as_told(
    sampler, collection, tmp_path
):
    changes = {
        "chain.sampler": {"kind": sampler},
        "chain.collection": collection,
        "chain.schedule.lr": 1e-4,
    }
    recipe = load_recipe("digits", QUICK | {"chain.chains": 1, **changes})
    recipe = recipe.model_copy(update={"retrain": None, "prune": None})
    network = recipe.network.build(64, 10)
    weights = 4 * sum(p.numel() for p in network.parameters())
    steps = -(-len(digits()[0]) // recipe.chain.batch_size)
    samples = len(recipe.chain.steps_to_collect(steps))
    learn(network, digits()[0], recipe, folder=tmp_path)
    checkpoints = tmp_path.glob("chain/0000/checkpoint*")
    [checkpoint] = [path for path in checkpoints if path.is_file()]
    # Besides there are the samples, and the ensemble twice.
    told = disk_needed(network, recipe, steps) - 3 * samples * weights
    assert 0.5 * told < 2 * checkpoint.stat().st_size < 1.1 * told
