"""Retraining: members get better together, and stay as sparse as they were."""

import math

import pytest
import torch
from torch import Tensor, nn

import sparsemble
from small_runs import network, recipe
from sparsemble.errors import DivergedError
from sparsemble.layouts import feedforward_layout
from sparsemble.priors import NoPrior
from sparsemble.samplers import SGLD, Constant
from sparsemble.stages import Chain, DivergenceSettings, Subject
from sparsemble.stages.chain_state import ChainIdentity
from sparsemble.stages.updates import Update
from sparsemble.tasks import Classification, Forward


def test_retraining_lowers_the_loss_and_keeps_the_masks(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    raw = sparsemble.learn(network(), arrays, recipe(retrain=None))
    data = sparsemble.as_dataset(*arrays)
    before, after = (run.ensemble.evaluate(data).of_a_member("nll") for run in (raw, learned))
    assert after < before
    for after, before in zip(learned.ensemble, raw.ensemble, strict=True):
        assert after.cost == before.cost
        for name, parameter in after.network.named_parameters():
            if name in after.masks:
                assert torch.equal(after.masks[name], before.masks[name])
                assert bool((parameter[~after.masks[name]] == 0).all())


def test_the_loss_of_members_retrained_together_is_that_of_one(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    first = next(r for r in learned.history.epochs if r.stage == "retrain")
    assert len(learned.ensemble) == 3
    assert 0 < first.loss < math.log(3)
    assert first.loss < first.potential < first.loss + 1


class Collapsing(Forward):
    """Outputs of 18 members that know every answer, until the eighth of them knows none."""

    def __init__(self, scale: Tensor, targets: Tensor, after: int) -> None:
        super().__init__(lambda _: scale)
        self.scale = scale
        self.sure = 9.0 * nn.functional.one_hot(targets, 10).float().repeat(18, 1, 1)
        self.left = after

    def __call__(self, inputs: Tensor) -> Tensor:
        if self.left == 0:
            self.sure[7] = 0.0
        self.left -= 1
        return self.scale.view(18, 1, 1) * self.sure


def test_one_member_that_collapses_is_noticed_among_many():
    targets = torch.arange(50) % 10
    data = sparsemble.as_dataset(torch.zeros(50, 1), targets)
    training = Classification().training(data)
    scale = torch.ones(18, requires_grad=True)
    forward = Collapsing(scale, targets, after=3)
    forward.sure[7] = 0.0
    losses = training.task.loss(forward(data.inputs), targets).detach()
    assert losses.shape == (18,)
    assert float(losses.mean()) < 0.2 * math.log(10)  # the mean alone would not tell
    assert float(losses.max()) == pytest.approx(math.log(10))

    chain = Chain(
        ChainIdentity("retrain", 0, 0),
        Subject(
            {"scale": scale},
            Collapsing(scale, targets, after=3),
            Update(
                SGLD([scale], 1e-9, num_data=50, temperature=0.0),
                NoPrior().bind(feedforward_layout(nn.Sequential(nn.Linear(1, 1))), {}),
            ),
            flops=0,
            batch_dims=1,
        ),
        task=training.task,
        batches=InOrder(data.inputs, targets),
        schedule=Constant(lr=1e-9),
        divergence=DivergenceSettings(max_rollbacks=0),
    )
    assert chain.run(3)
    with pytest.raises(DivergedError, match="the smoothed loss rose"):
        chain.run(100)


class InOrder:
    """One batch, always the same."""

    num_data, steps = 50, 1

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.batch = (inputs, targets)

    def epoch(self, number: int, start: int = 0, variant: int = 0):
        yield self.batch
