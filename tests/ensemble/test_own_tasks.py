"""A task of the user's own: saved with the ensemble, loaded only with its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import sparsemble
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.recipes import load_recipe
from sparsemble.store import read_json
from sparsemble.tasks import Classification, ExampleTask
from sparsemble.tasks.task import Forward, Metric


class Counting(ExampleTask):
    """Numbers of events, Poisson with a rate whose logarithm the network gives."""

    kind: str = "counting"
    exposure: float = 1.0

    metrics: ClassVar[tuple[Metric, ...]] = (Metric("deviation", "Deviation"),)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        wanted = targets.expand_as(outputs)
        losses = F.poisson_nll_loss(outputs, wanted, reduction="none")
        return losses.mean((-1, -2))

    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        return self.exposure * outputs.exp()

    def mix(self, evidence: Tensor) -> Tensor:
        return evidence.mean(0)

    def statistics(self, prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"deviation": (prediction - targets).abs().mean(-1)}

    def rows(self, evidence: Tensor) -> list[dict[str, Any]]:
        return [{"rate": float(rate)} for rate in self.mix(evidence)]


@pytest.fixture(scope="module")
def learned() -> Ensemble:
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(200, 3))
    counts = generator.poisson(np.exp(0.5 * inputs[:, 0]))
    recipe = load_recipe(
        "digits",
        {
            "chain.chains": 1,
            "chain.epochs": 6,
            "chain.burn_in": 0,
            "chain.interval": 3,
            "chain.schedule.lr": 0.05,
            "retrain.epochs": 1,
            "retrain.schedule.lr": 0.02,
        },
    )
    network = sparsemble.feedforward(3, [8], 1)
    found = sparsemble.learn(network, (inputs, counts), recipe, task=Counting(exposure=2.0))
    return found.ensemble


def test_it_is_learned_scored_and_predicts(learned, tmp_path):
    inputs = torch.randn(5, 3)
    with torch.no_grad():
        expected = sum(2 * member(inputs).exp() for member in learned) / len(learned)
    torch.testing.assert_close(learned(inputs), expected)
    truth = torch.ones(5)
    score = learned.evaluate((inputs, truth))
    assert score["deviation"] == pytest.approx(float((expected - 1).abs().mean()), rel=1e-5)
    np.save(tmp_path / "rows.npy", inputs.numpy())
    [answer] = learned.task.predict_file(learned, tmp_path / "rows.npy")
    assert [row["rate"] for row in answer.value] == pytest.approx(expected.flatten().tolist())


def test_saved_it_is_loaded_with_its_class_and_not_without(learned, tmp_path):
    learned.save(tmp_path)
    described = read_json(tmp_path / "manifest.json")["task"]
    assert described["kind"] == f"{__name__}:Counting"
    assert described["exposure"] == 2.0
    with pytest.raises(
        InputError, match=r"Counting' is your own: give load\(\) its class \(task\)"
    ):
        Ensemble.load(tmp_path)
    loaded = Ensemble.load(tmp_path, task=Counting)
    assert type(loaded.task) is Counting
    assert loaded.task.exposure == 2.0
    inputs = torch.randn(5, 3)
    assert torch.equal(loaded(inputs), learned(inputs))
    loaded.save(tmp_path / "again")
    again = Ensemble.load(tmp_path / "again", task=Counting)
    assert torch.equal(again(inputs), learned(inputs))


def test_another_task_than_the_one_that_was_saved_is_refused(learned, tmp_path):
    learned.save(tmp_path)
    with pytest.raises(InputError, match="Counting"):
        Ensemble.load(tmp_path, task=Classification)


def test_without_ways_to_say_it_a_task_says_so(learned):
    with pytest.raises(InputError, match="Counting does not say how uncertain"):
        learned.uncertainty(torch.zeros(2, 3))


class Reversed(Classification):
    """Networks read every input from its end."""

    kind: str = "reversed"

    def forward(self, network: Callable[..., Any]) -> Forward:
        return _FromTheEnd(network)


class _FromTheEnd(Forward):
    def __call__(self, inputs: Any) -> Tensor:
        return super().__call__(inputs.flip(1))


def test_how_a_task_calls_networks_holds_in_every_stage():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(200, 4)).astype(np.float32)
    classes = (inputs[:, 0] > 0).astype(int)
    quick = {"chain.epochs": 6, "chain.burn_in": 0, "chain.interval": 3, "chain.chains": 1}
    recipe = load_recipe("digits", {**quick, "retrain.epochs": 1, "retrain.targets": 0.5})
    network = sparsemble.feedforward(4, [8], 2)
    task, layout = Reversed(num_classes=2, input_shape=(4,)), layout_of(network)
    found = sparsemble.learn(network, (inputs, classes), recipe, task=task, layout=layout)
    rows = torch.from_numpy(inputs[:5])
    with torch.no_grad():
        expected = sum(member(rows.flip(1)).softmax(-1) for member in found.ensemble) / 2
    torch.testing.assert_close(found.ensemble(rows), expected)
