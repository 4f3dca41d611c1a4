"""The examples of loops of one's own learn to read digits, and Lightning's goes on where it was."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import sparsemble

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data():
    return sparsemble.digits()


def shorten(example, shorter, monkeypatch):
    """Let an example take a part of its epochs."""
    for name in ("EPOCHS", "BURN_IN", "INTERVAL"):
        monkeypatch.setattr(example, name, -(-getattr(example, name) // shorter))
    retrain = example.RETRAIN.model_copy(update={"epochs": example.RETRAIN.epochs // shorter})
    monkeypatch.setattr(example, "RETRAIN", retrain)


def test_a_plain_loop(data, monkeypatch):
    from examples import own_loop as example

    for name, few in (("EPOCHS", 8), ("BURN_IN", 4), ("RETRAIN", 2)):
        monkeypatch.setattr(example, name, few)
    ensemble = example.learn(data[0])
    assert ensemble.cost.flops_ratio <= 1
    assert ensemble.evaluate(data[1])["error"] < 0.06


def test_a_loop_of_lightning_s(data, monkeypatch):
    pytest.importorskip("lightning")
    from examples import lightning_loop as example

    shorten(example, 2, monkeypatch)
    ensemble = example.learn(data[0])
    assert ensemble.cost.flops_ratio <= 1
    assert ensemble.evaluate(data[1])["error"] < 0.07


@pytest.mark.parametrize(
    ("shorter", "error"), [(4, 0.3), pytest.param(1, 0.08, marks=pytest.mark.thorough)]
)
def test_a_loop_of_transformers(data, shorter, error, monkeypatch):
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    from examples import trainer_callback as example

    shorten(example, shorter, monkeypatch)
    train, test = ((own.scaled().view(-1, 1, 8, 8), own.targets) for own in data)
    ensemble = example.learn(*train)
    assert ensemble.cost.parameters_ratio <= 1
    assert ensemble.evaluate(test)["error"] < error


def test_what_lightning_resumes_has_the_samples_of_an_uninterrupted_loop(data, tmp_path):
    lightning = pytest.importorskip("lightning")
    from examples.lightning_loop import QUIET, Digits, Sampling

    inputs, targets = data[0].scaled()[:64], data[0].targets[:64]
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=16)
    torch.manual_seed(0)
    first = Digits(64)
    traced = sparsemble.describe(first.network, inputs[:2])

    def fitted(module, epochs, checkpoint=None):
        # Windows end after 7 and 12 steps: the loop is stopped within the second.
        sampling = Sampling(traced, burn_in=2, interval=5, average_every=1)
        trainer = lightning.Trainer(max_epochs=epochs, callbacks=[sampling], **QUIET)
        trainer.fit(module, loader, ckpt_path=checkpoint)
        return trainer, sampling.collector

    state = {name: own.clone() for name, own in first.state_dict().items()}
    _, whole = fitted(first, 4)
    stopped = Digits(64)
    stopped.load_state_dict(state)
    trainer, _ = fitted(stopped, 2)
    trainer.save_checkpoint(tmp_path / "stopped.ckpt")
    _, resumed = fitted(Digits(64), 4, tmp_path / "stopped.ckpt")
    assert [sample.step for sample in resumed.samples] == [7, 12]
    for mine, theirs in zip(resumed.samples, whole.samples, strict=True):
        assert all(torch.equal(own, theirs.parameters[n]) for n, own in mine.parameters.items())
