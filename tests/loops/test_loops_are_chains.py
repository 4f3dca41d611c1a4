"""A loop written by hand, with what hangs on its optimiser, is the library's own chain."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from own_loops import blobs, small_network
from sparsemble import Classification, Collector, attach_prior, draw_samples, layout_of
from sparsemble.priors import Gaussian, GroupSparse, SumPrior
from sparsemble.samplers import SGHMC, SGLD, Constant, Cyclical, SGHMCSettings, SGLDSettings
from sparsemble.seeds import derive
from sparsemble.stages import ChainSettings
from sparsemble.stages.chain import clip_gradients

SEED, EPOCHS, SIZE = 7, 12, 16
STEPS = 96 // SIZE
LR, TEMPERATURE = 0.2, 0.1
PRIOR = SumPrior(terms=(Gaussian(penalty=1e-3), GroupSparse(penalty=1e-3)))


@pytest.fixture
def network() -> nn.Sequential:
    return small_network()


def chain(network: nn.Module, kind=SGLDSettings, schedule=None, **settings):
    """What `draw_samples` gives, and the batches it saw."""
    training = Classification().training(blobs(), seed=SEED, outputs=3)
    batches = training.batches(SIZE)
    how = ChainSettings(
        sampler=kind(temperature=TEMPERATURE),
        schedule=schedule or Constant(lr=LR),
        batch_size=SIZE,
        epochs=EPOCHS,
        burn_in=6,
        **settings,
    )
    start, layout = copy.deepcopy(network), layout_of(network)
    samples = draw_samples(start, layout, training.task, batches, PRIOR, how, seed=SEED)
    return samples, [batch for epoch in range(EPOCHS) for batch in batches.epoch(epoch)]


def begun(network: nn.Module, kind=SGLD, **collected):
    """A sampler with the noise of the chain's, and a collector on it."""
    seed = derive(derive(SEED, "chain", 0), "noise", 0)
    how = {"lr": LR, "num_data": 96, "temperature": TEMPERATURE, "seed": seed}
    sampler, layout = kind(network.parameters(), **how), layout_of(network)
    attach_prior(PRIOR, network, layout, sampler)
    return sampler, Collector(network, layout, sampler, burn_in=6 * STEPS, **collected)


def assert_same_bits(samples, expected, epochs: list[int]) -> None:
    assert [sample.step for sample in expected] == [epoch * STEPS for epoch in epochs]
    assert [sample.step for sample in samples] == [sample.step for sample in expected]
    for mine, theirs in zip(samples, expected, strict=True):
        assert mine.parameters.keys() == theirs.parameters.keys()
        for name, tensor in mine.parameters.items():
            assert torch.equal(tensor, theirs.parameters[name]), (mine.step, name)


@pytest.mark.parametrize("collection", ["means", "thinned"])
@pytest.mark.parametrize(
    ("kind", "settings"), [(SGLD, SGLDSettings), (SGHMC, SGHMCSettings)], ids=["sgld", "sghmc"]
)
def test_the_loop_draws_the_samples_of_the_chain(network, collection, kind, settings):
    how = {"collection": collection, "average_every": 2}
    expected, batches = chain(network, settings, interval=3, clip=0.5, **how)
    sampler, collector = begun(network, kind, interval=3 * STEPS, **how)
    for inputs, targets in batches:
        sampler.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        clip_gradients([own.grad for own in network.parameters()], 0.5)
        sampler.step()
    assert_same_bits(collector.samples, expected, [9, 12])


def test_ends_of_cycles_are_found_by_the_rate(network):
    schedule = Cyclical(lr=LR, period=3.0)
    expected, batches = chain(network, schedule=schedule, collection="cycles")
    sampler, collector = begun(network, collection="cycles")
    for number, (inputs, targets) in enumerate(batches):
        sampler.param_groups[0]["lr"] = schedule(number / STEPS)
        sampler.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        sampler.step()
    collector.take()  # the last cycle ends with the loop
    assert_same_bits(collector.samples, expected, [9, 12])


def test_a_loop_in_bfloat16_is_the_chain_that_autocasts(network):
    expected, batches = chain(network, autocast=True, interval=6)
    sampler, collector = begun(network, interval=6 * STEPS)
    for inputs, targets in batches:
        sampler.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(network(inputs), targets)
        loss.backward()
        sampler.step()
    assert_same_bits(collector.samples, expected, [12])
