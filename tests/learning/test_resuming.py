"""A run with a folder goes on where it stopped, to the same bits, and only as the same run."""

import numpy as np
import pytest
import torch
from torch import nn

import sparsemble
from small_runs import KillAt, Killed, network, predictions, recipe
from sparsemble.augmentations import InputDropout
from sparsemble.errors import InputError
from sparsemble.priors import GroupSparse
from sparsemble.runs import RunFolder
from sparsemble.samplers import Constant, SGLDSettings
from sparsemble.stages import Callback, ChainSettings, DivergenceSettings, PruneSettings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(arrays):
    """What a run that nobody disturbs gives."""
    return sparsemble.learn(network(), arrays, recipe())


@pytest.mark.parametrize("at", [("chain", 5), ("chain", 150), ("retrain", 119)])
def test_a_run_stopped_anywhere_and_started_again_gives_the_same_bits(
    arrays, whole, tmp_path, monkeypatch, at
):
    # A checkpoint after every step: the kill then loses nothing that a resumed run repeats.
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    assert [(r.stage, r.epoch) for r in resumed.history.epochs] == [
        (r.stage, r.epoch) for r in whole.history.epochs
    ]
    saved = sparsemble.Ensemble.load(tmp_path / "ensemble")
    assert np.array_equal(predictions(whole, arrays), saved.predict_proba(arrays[0]))


def test_marks_of_jobs_that_were_killed_are_removed(arrays, tmp_path):
    sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    for stage in ("chain", "retrain"):
        (tmp_path / stage / ".seen-before-a-kill").touch()
    sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    assert not list(tmp_path.rglob(".seen-*"))


def everything():
    """A budget reached in rounds, the posterior's targets, perturbed inputs, split steps, units
    that leave the chain."""
    chosen = recipe()
    assert chosen.retrain is not None
    perturbed = {"augment": InputDropout(share=0.2)}
    split = {"every": 3, "prior_step": "proximal", "average_every": 2, "shed_after": 1}
    return recipe(
        chain=chosen.chain.model_copy(update={**split, **perturbed}),
        prior=GroupSparse(penalty=1e-2),
        prune=PruneSettings(flops=1.0, parameters=0.7, steps=3, between=2),
        retrain=chosen.retrain.model_copy(update={"targets": 0.5, **perturbed}),
    )


@pytest.fixture(scope="module")
def all_of_it(arrays):
    """What such a run gives if nobody disturbs it."""
    return sparsemble.learn(network(), arrays, everything())


@pytest.mark.parametrize(
    "at",
    [
        ("chain", 101),
        pytest.param(("prune-1", 3), marks=pytest.mark.thorough),
        pytest.param(("prune-2", 9), marks=pytest.mark.thorough),
        pytest.param(("retrain", 1), marks=pytest.mark.thorough),
        ("retrain", 70),
    ],
)
def test_a_run_with_everything_switched_on_resumes_to_the_same_bits(
    arrays, all_of_it, tmp_path, monkeypatch, at
):
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, everything(), folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(network(), arrays, everything(), folder=tmp_path)
    assert np.array_equal(predictions(all_of_it, arrays), predictions(resumed, arrays))
    cost = resumed.ensemble.cost
    assert cost.flops_ratio <= 1
    assert cost.parameters_ratio <= 0.7
    assert resumed.history.sheds == all_of_it.history.sheds
    assert resumed.history.sheds[-1].flops < 0.8


def test_a_run_killed_before_its_first_checkpoint_starts_anew(arrays, whole, tmp_path):
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, callback=KillAt("chain", 40))
    trace = tmp_path / "chain" / "0000" / "trace.jsonl"
    trace.write_text(trace.read_text()[:-20])  # and its last line is torn
    for _ in range(2):
        again = sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
        assert [(r.stage, r.epoch) for r in again.history.epochs] == [
            (r.stage, r.epoch) for r in whole.history.epochs
        ]
    assert np.array_equal(predictions(whole, arrays), predictions(again, arrays))


def test_a_run_goes_on_with_the_threads_it_began_with(arrays, tmp_path):
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, callback=KillAt("chain", 40))
    seen = []

    class Threads(Callback):
        def started(self, stage, chain, chains, done, total):
            seen.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, callback=Threads())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert set(seen) == {1}


class KillAfterRollback(Callback):
    """Kills the run some steps after a rollback that undid samples."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.left = None
        self.undone = 0
        self.taken = []

    def sampled(self, sample, save):
        self.taken.append(sample.step)

    def rolled_back(self, rollback, save):
        undone = sum(step > rollback.back_to for step in self.taken)
        if undone and self.left is None:
            self.undone, self.left = undone, self.steps
            if self.left == 0:
                raise Killed

    def stepped(self, chain, step, loss, save):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


def unstable(collection):
    """A chain that diverges again and again, after samples that count no more."""
    return recipe(
        chain=ChainSettings(
            sampler=SGLDSettings(temperature=1),
            schedule=Constant(lr=3.0),
            batch_size=25,
            epochs=10,
            burn_in=0,
            interval=1,
            collection=collection,
            samples=60 if collection == "backward" else None,
            divergence=DivergenceSettings(rise=0.05, max_rollbacks=50),
        ),
        prune=None,
        retrain=None,
    )


@pytest.fixture(scope="module", params=["means", "thinned", "backward"])
def undisturbed(request, arrays):
    """Such a chain, and what it gives."""
    chosen = unstable(request.param)
    return chosen, sparsemble.learn(network(), arrays, chosen)


@pytest.mark.parametrize("steps", [0, pytest.param(1, marks=pytest.mark.thorough), 5])
def test_a_kill_after_a_rollback_loses_no_sample(arrays, tmp_path, undisturbed, steps):
    chosen, whole = undisturbed
    killer = KillAfterRollback(steps)
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, chosen, folder=tmp_path, callback=killer)
    assert killer.undone
    resumed = sparsemble.learn(network(), arrays, chosen, folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    assert resumed.history.rollbacks == whole.history.rollbacks


class Stages(Callback):
    def __init__(self) -> None:
        self.begun = []

    def started(self, stage, chain, chains, done, total):
        self.begun.append(stage)


def test_runs_that_differ_after_the_chain_share_its_samples(arrays, tmp_path):
    shared = tmp_path / "chain"
    first = sparsemble.learn(
        network(), arrays, recipe(), folder=tmp_path / "a", samples_folder=shared
    )
    other = recipe(prune=PruneSettings(sparsity=0.9))
    second = sparsemble.learn(
        network(),
        arrays,
        other,
        folder=tmp_path / "b",
        samples_folder=shared,
        callback=(seen := Stages()),
    )
    alone = sparsemble.learn(network(), arrays, other)
    assert np.array_equal(predictions(second, arrays), predictions(alone, arrays))
    assert second.ensemble.cost.parameters < first.ensemble.cost.parameters
    assert seen.begun == ["retrain"]  # the chain was not run again


def test_a_folder_of_another_run_is_refused(arrays, tmp_path):
    sparsemble.learn(network(), arrays, recipe(), folder=tmp_path / "run")
    with pytest.raises(InputError, match=r"another recipe or seed \(seed = 1, not 9\); go on with"):
        sparsemble.learn(network(), arrays, recipe(seed=9), folder=tmp_path / "run")
    with pytest.raises(InputError, match=r"belongs to another run: its prior differ"):
        sparsemble.learn(
            network(),
            arrays,
            recipe(prior=GroupSparse(penalty=1e-4)),
            folder=tmp_path / "other",
            samples_folder=tmp_path / "run" / "chain",
        )


def test_a_folder_in_use_is_refused(arrays, tmp_path):
    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(InputError, match="in use by another process"),
    ):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda net, data: (nn.Sequential(*net[:2], nn.Tanh(), net[3]), data), "network"),
        (lambda net, data: (net.apply(nudge), data), "initial weights"),
        (lambda net, data: (net, (data[0] * 2, data[1])), "data"),
    ],
)
def test_a_folder_is_only_gone_on_with_by_the_same_network_and_data(arrays, tmp_path, change, what):
    sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    other, data = change(network(), arrays)
    with pytest.raises(InputError, match=f"its .*{what}.* differ"):
        sparsemble.learn(other, data, recipe(), folder=tmp_path)


def nudge(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.data += 0.01
