"""What training costs: every step that was taken is counted, at the price it had then."""

from __future__ import annotations

import json
import zlib

import pytest

import sparsemble
from small_runs import KillAt, Killed, network, recipe
from sparsemble import Budget
from sparsemble.learning import Learned, planning
from sparsemble.learning.spending import StageCost, stage_cost, training_cost
from sparsemble.learning.trials import trials_cost
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.results.result import read_result
from sparsemble.runs import RunFolder
from sparsemble.samplers import Constant, Exponential, SGLDSettings
from sparsemble.stages import (
    Callback,
    ChainSettings,
    DivergenceSettings,
    EpochRecord,
    History,
    RetrainSettings,
    Rollback,
)

pytestmark = pytest.mark.slow

DENSE = 2 * (8 * 24 + 24 * 3)
"""FLOPs of the small network for one of the 300 examples."""


class Steps(Callback):
    """Counts steps, those among them that a divergence was seen in, and keeps epochs."""

    def __init__(self) -> None:
        self.taken = 0
        self.epochs: list[EpochRecord] = []

    def stepped(self, chain, step, loss, save):
        self.taken += 1

    def rolled_back(self, rollback, save):
        self.taken += 1  # the step of the divergence is not told as one

    def epoch_ended(self, record):
        self.epochs.append(record)


def test_a_step_takes_three_forward_passes_of_every_example(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    chain, retrain = learned.training.stages
    assert chain == StageCost("chain", 20, 3 * DENSE * 300 * 20, chain.seconds)
    members = sum(member.cost.flops for member in learned.ensemble)
    assert members < 3 * DENSE
    assert (retrain.epochs, retrain.flops) == (10 * 3, 3 * members * 300 * 10)
    total = learned.training.total
    assert total.seconds == pytest.approx(sum(learned.seconds.values()))
    assert total.flops == chain.flops + retrain.flops


def test_one_dense_network_is_that_of_the_baselines_recipe(arrays):
    learned = sparsemble.learn(network(), arrays, recipe(), baseline=2)
    training, dense = learned.training, learned.dense.training
    assert training.dense.epochs == dense_recipe(recipe()).chain.epochs == 20
    assert training.share(training.stages[0]) == 1.0
    assert training.share(training.stages[0], 4) == 0.25
    assert dense.share(dense.total) == 2.0  # two of them
    measured = training.beside(dense, 2)
    assert measured.dense.flops == training.dense.flops
    assert measured.dense.seconds == pytest.approx(dense.total.seconds / 2)


def test_a_teachers_forward_passes_count_once(arrays):
    schedule = Exponential(lr=0.3, factor=1.1)
    taught = RetrainSettings(schedule=schedule, epochs=2, batch_size=25, targets=0.5)
    learned = sparsemble.learn(network(), arrays, recipe(retrain=taught))
    members = sum(member.cost.flops for member in learned.ensemble)
    assert learned.training.stages[1].flops == 300 * 2 * (3 * members + 3 * DENSE)


def test_words_are_the_examples_of_a_text(text_run):
    result = read_result(text_run / "result.json")
    (record, *_) = RunFolder(text_run).chain.history().epochs
    window, streams = result.recipe.task.window, result.recipe.chain.batch_size
    assert record.examples > window * streams
    assert record.examples % streams == 0
    dense = result.flops / result.flops_ratio
    assert record.flops == pytest.approx(3 * dense * record.examples)
    assert result.training.dense.flops == pytest.approx(3 * record.flops)  # of three epochs


def test_what_a_divergence_undid_has_been_paid_for(arrays):
    unstable = ChainSettings(
        sampler=SGLDSettings(temperature=1),
        schedule=Constant(lr=3.0),
        batch_size=25,
        epochs=10,
        burn_in=0,
        interval=1,
        divergence=DivergenceSettings(rise=0.05, max_rollbacks=50),
    )
    steps = Steps()
    chosen = recipe(chain=unstable, prune=None, retrain=None)
    learned = sparsemble.learn(network(), arrays, chosen, callback=steps)
    assert learned.history.rollbacks
    assert steps.taken > 10 * 12
    (chain,) = learned.training.stages
    assert chain.flops == 3 * DENSE * 25 * steps.taken
    assert chain.epochs == pytest.approx(steps.taken / 12)


@pytest.mark.parametrize("stage", ["chain", "retrain"])
def test_a_resumed_run_counts_the_same(arrays, tmp_path, stage):
    whole = sparsemble.learn(network(), arrays, recipe())
    with pytest.raises(Killed):
        sparsemble.learn(
            network(), arrays, recipe(), folder=tmp_path, callback=KillAt(stage, 12 * 4 + 7)
        )
    resumed = sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    counted = [
        [(record.flops, record.examples) for record in run.history.epochs]
        for run in (whole, resumed)
    ]
    assert counted[0] == counted[1]


def test_traces_of_older_runs_are_read_and_say_that_nobody_counted(tmp_path):
    line = {
        **{"kind": "epoch", "stage": "chain", "chain": 0, "epoch": 1, "metric": "loss"},
        **{"loss": 0.5, "potential": 0.5, "figure": 0.5, "lr": 0.1, "noise_to_drift": 0.0},
        **{"near_zero_groups": None, "seconds": 2.0},
    }
    text = json.dumps(line)
    folder = tmp_path / "chain"
    folder.mkdir()
    (folder / "trace.jsonl").write_text(f"{zlib.crc32(text.encode()):08x} {text}\n")
    history = RunFolder(tmp_path).chain.history()
    assert stage_cost("chain", history) == StageCost("chain", 1, None, 2.0)
    training = training_cost(history, recipe(), DENSE)
    assert training.dense.flops is None
    assert training.share(training.total) is None


def test_epochs_that_were_broken_off_are_parts_of_whole_ones():
    def epoch(number, chain=0):
        fields = {"flops": 100.0, "examples": 40, "networks": 3}
        return EpochRecord("retrain", chain, number, *[0.5] * 2, "loss", *[0.5] * 4, 2.0, **fields)

    history = History()
    for record in (
        epoch(1),
        epoch(2),
        Rollback("retrain", 0, 9, "loss", 4, 1, 0.8, seconds=0.5, flops=25.0, examples=10),
        epoch(2),
        epoch(1, chain=1),
    ):
        history.add(record)
    assert stage_cost("retrain", history) == StageCost("retrain", 4 * 3 + 3 / 4, 425.0, 8.5)
    assert Learned(None, None, history, []).seconds == {"chain": 0.0, "retrain": 8.5}
    tried = Learned(None, None, history, [], trials=StageCost("trial", 3, 75.0, 1.5))
    assert tried.seconds == {"chain": 0.0, "retrain": 8.5, "trials": 1.5}


@pytest.mark.thorough
def test_trials_are_counted_once_however_often_planning_was_begun(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "_FEWEST_STEPS", 60)
    monkeypatch.setattr(planning, "_MOST_STEPS", 60)
    monkeypatch.setattr(planning.Planner, "_length", lambda self: 20)
    assert trials_cost(tmp_path / "trials") is None
    with pytest.raises(Killed):
        learn_for(arrays, tmp_path, KillAt("trial", 30))
    learned = learn_for(arrays, tmp_path)
    trials, chain = learned.training.stages[:2]
    assert (trials.stage, chain.stage) == ("trial", "chain")
    # Networks and numbers of examples are the chain's own.
    assert trials.epochs > 0
    whole = chain.flops + learned.training.shed
    assert trials.flops / trials.epochs == pytest.approx(whole / chain.epochs)
    again = learn_for(arrays, tmp_path)
    assert again.training.stages[0] == trials


def learn_for(arrays, folder, callback=None):
    return sparsemble.learn(
        network, arrays, budget=Budget(flops=0.8), baseline=0, folder=folder, callback=callback
    )
