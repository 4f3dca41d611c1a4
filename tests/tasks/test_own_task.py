"""A task of the user's own: counts with a Poisson likelihood, through everything the library does.

The task and its data are the text below, which a user would have as a file of theirs.
"""

import importlib
import json
import multiprocessing
import os
import signal
import sys

import numpy as np
import pytest
import torch

import sparsemble
from sparsemble.recipes import load_recipe
from sparsemble.results.running import run_recipe
from sparsemble.stages import Callback

MODULE = '''
import torch
from sparsemble.tasks import ExampleTask, Metric

class Counts(ExampleTask):
    """Counts: the network gives the logarithm of a Poisson rate."""

    noun = "count models"
    metrics = (Metric("nll", "NLL"), Metric("mae", "MAE", ".3f"))

    def loss(self, outputs, targets):
        logs, counts = outputs.squeeze(-1), targets.squeeze(-1)
        return (logs.exp() - counts * logs).mean(-1)

    def evidence(self, outputs, targets=None):
        return outputs.squeeze(-1).exp()

    def mix(self, evidence):
        return evidence.mean(0)

    def statistics(self, prediction, targets):
        counts = targets.squeeze(-1)
        nll = prediction - counts * prediction.log() + torch.lgamma(counts + 1)
        return {"nll": nll, "mae": (prediction - counts).abs()}

    def diversity(self, evidence):
        return evidence.std(0, correction=0) / evidence.mean(0)

def data():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, 3, generator=generator)
    rates = (0.5 + inputs[:, 0] - 0.5 * inputs[:, 1]).exp()
    counts = torch.poisson(rates, generator=generator)
    return (inputs[:300], counts[:300]), (inputs[300:], counts[300:])
'''
RECIPE = """
baseline = "none"
[task]
kind = "counts:Counts"
[data]
name = "custom"
loader = "counts:data"
[network]
hidden = [16]
[prior]
kind = "group-sparse"
penalty = 1e-3
[chain]
batch_size = 30
epochs = 30
burn_in = 10
interval = 10
sampler = { temperature = 0.1 }
schedule = { kind = "constant", lr = 0.05 }
[prune]
sparsity = 0.4
[retrain]
batch_size = 30
epochs = 5
schedule = { kind = "constant", lr = 0.05 }
"""
CODE = ("--code", "counts:Counts", "--code", "counts:data")


class Killed(Callback):
    """Ends the process at a step of a stage, as a power cut would."""

    def __init__(self, stage: str, step: int) -> None:
        self.wanted, self.stage = (stage, step), ""

    def started(self, stage, chain, chains, done, total):
        self.stage = stage

    def stepped(self, chain, step, loss, save):
        if (self.stage, step) == self.wanted:
            os.kill(os.getpid(), signal.SIGKILL)


def learn_until_killed(folder, stage, step):
    run_recipe(load_recipe("counts.toml"), folder, callback=Killed(stage, step))


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """The user's folder, with the task as a module."""
    (tmp_path / "counts.py").write_text(MODULE)
    (tmp_path / "counts.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("counts")
    del sys.modules["counts"]


def test_a_task_fits_in_a_file_of_less_than_eighty_lines():
    assert len(MODULE.splitlines()) < 80


def test_a_task_of_ones_own_is_learned_and_better_than_a_constant(counts):
    train, test = counts.data()
    recipe = load_recipe("counts.toml")
    network = sparsemble.feedforward(3, [16], 1)
    ensemble = sparsemble.learn(network, train, recipe, task=counts.Counts()).ensemble
    score = ensemble.evaluate(test)
    mean = train[1].mean()
    constant = mean - test[1] * mean.log() + torch.lgamma(test[1] + 1)
    assert score["nll"] < float(constant.mean()) - 0.1
    assert len(score.curve["nll"]) == len(ensemble) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "step"), [("chain", 150), ("retrain", 30)])
def test_a_killed_run_of_it_is_resumed_to_the_same_bits(counts, command, tmp_path, stage, step):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert command("learn", "counts.toml", "--out", whole, "--quiet")[0] == 0
    child = multiprocessing.get_context("fork").Process(
        target=learn_until_killed, args=(killed, stage, step)
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert command("resume", killed)[0] == 2  # code in a folder is not followed unasked
    assert command("resume", killed, *CODE, "--quiet")[0] == 0
    tensors = [next((f / "ensemble").glob("members-*")).read_bytes() for f in (whole, killed)]
    assert tensors[0] == tensors[1]


def test_it_is_evaluated_predicted_with_and_reported(counts, command, tmp_path):
    run, own = tmp_path / "run", ("--code", "counts:Counts")
    assert command("learn", "counts.toml", "--out", run, "--quiet")[0] == 0
    inputs, targets = counts.data()[1]
    np.savez(tmp_path / "test.npz", inputs=inputs.numpy(), labels=targets.numpy())
    code, out, _ = command("evaluate", run, "--on", tmp_path / "test.npz", "--json", *own)
    saved = json.loads((run / "result.json").read_text())["scores"]["test"]
    assert code == 0
    assert json.loads(out)["curve"]["nll"] == pytest.approx(saved["curve"]["nll"])
    assert command("evaluate", run, "--on", tmp_path / "test.npz")[0] == 2  # without its class
    code, out, _ = command("predict", run, tmp_path / "test.npz", *own)
    ensemble = sparsemble.Ensemble.load(run, task=counts.Counts)
    assert code == 0
    assert [float(line) for line in out.splitlines()[1:]] == pytest.approx(
        ensemble.predict(inputs), rel=1e-5
    )
    assert command("report", run, *CODE)[0] == 0
    assert "count models" in (run / "report.html").read_text()


def test_a_loss_of_the_wrong_shape_is_told_before_anything_runs(counts):
    class Wrong(counts.Counts):
        def loss(self, outputs, targets):
            return (outputs.squeeze(-1) - targets.squeeze(-1)).square()

    with pytest.raises(sparsemble.InputError, match=r"Wrong\.loss must return .* not \(2,\)"):
        sparsemble.learn(
            sparsemble.feedforward(3, [4], 1),
            counts.data()[0],
            load_recipe("counts.toml"),
            task=Wrong(),
        )


def test_a_metric_that_is_no_number_is_told_before_anything_runs(counts):
    class Wrong(counts.Counts):
        def statistics(self, prediction, targets):
            found = super().statistics(prediction, targets)
            return {**found, "mae": found["mae"] * float("nan")}

    with pytest.raises(sparsemble.InputError, match=r"Wrong\.figures gives nan .*'mae'"):
        sparsemble.learn(
            sparsemble.feedforward(3, [4], 1),
            counts.data()[0],
            load_recipe("counts.toml"),
            task=Wrong(),
        )
