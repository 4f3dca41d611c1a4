"""A prior's gradient comes to every step that is taken, and to no other."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from own_loops import batches_of, blobs, run, small_network
from sparsemble import Collector, attach_prior, layout_of
from sparsemble.errors import InputError
from sparsemble.priors import Gaussian, GroupSparse
from sparsemble.samplers import SGLD

BATCHES = [(inputs.double(), targets) for inputs, targets in batches_of(blobs())]
PRIOR = GroupSparse(penalty=1e-2)


def started(seed: int = 0, *, temperature: float = 0.1):
    """A network in double precision, its sampler, and a collector of every iterate."""
    torch.manual_seed(seed)
    network = small_network().double()
    sampler = SGLD(network.parameters(), lr=0.2, num_data=96, temperature=temperature)
    attach_prior(PRIOR, network, layout_of(network), sampler)
    how = {"interval": 1, "collection": "thinned"}
    return network, sampler, Collector(network, layout_of(network), sampler, **how)


def assert_same_weights(one, other, **tolerance) -> None:
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, **tolerance or {"rtol": 0, "atol": 0})


def test_the_gradient_is_that_of_its_value_by_autograd():
    network, sampler, _ = started(temperature=0)
    other, *_ = started()
    bound = PRIOR.bind(layout_of(other), dict(other.named_parameters()))
    plain = torch.optim.SGD(other.parameters(), lr=0.2)
    for inputs, targets in BATCHES:
        plain.zero_grad()
        (F.cross_entropy(other(inputs), targets) + bound.value()).backward()
        plain.step()
    run(network, sampler, BATCHES)
    assert_same_weights(network, other, rtol=1e-12, atol=1e-14)


def test_its_value_is_what_it_adds_to_the_mean_loss():
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters())
    prior = attach_prior(PRIOR, network, layout_of(network), optimizer)
    groups = [network[0].weight.norm(dim=0), network[2].weight.norm(dim=0)]
    penalty = 12**0.5 * groups[0].sum() + 3**0.5 * groups[1].sum()
    assert prior.value() == pytest.approx(1e-2 * float(penalty.detach()))


def test_the_same_prior_is_not_attached_twice():
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters())
    prior = attach_prior(PRIOR, network, layout_of(network), optimizer)
    with pytest.raises(InputError, match="attached to the optimizer already"):
        attach_prior(PRIOR, network, layout_of(network), optimizer)
    attach_prior(Gaussian(penalty=1e-3), network, layout_of(network), optimizer)
    prior.remove()
    attach_prior(PRIOR, network, layout_of(network), optimizer)


def test_a_removed_prior_adds_nothing():
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    prior = attach_prior(PRIOR, network, layout_of(network), optimizer)
    before = network[0].weight.detach().clone()
    prior.remove()
    optimizer.step()
    assert torch.equal(network[0].weight, before)


def test_two_half_batches_are_one_whole():
    whole, sampler, _ = started()
    run(whole, sampler, BATCHES)
    halves, sampler, collector = started()
    for inputs, targets in BATCHES:
        for half in (slice(0, 8), slice(8, 16)):
            (F.cross_entropy(halves(inputs[half]), targets[half]) / 2).backward()
        sampler.step()
        sampler.zero_grad()
    assert_same_weights(halves, whole, rtol=1e-12, atol=1e-12)
    assert collector.steps == len(BATCHES)


@pytest.mark.parametrize("by_name", [False, True])
def test_gradients_of_a_closure_are_waited_for(by_name):
    plain, sampler, _ = started()
    run(plain, sampler, BATCHES)
    network, sampler, collector = started()
    for inputs, targets in BATCHES:

        def closure(inputs=inputs, targets=targets):
            sampler.zero_grad()
            loss = F.cross_entropy(network(inputs), targets)
            loss.backward()
            return loss

        loss = sampler.step(closure=closure) if by_name else sampler.step(closure)
        assert loss > 0
    assert_same_weights(network, plain)
    assert collector.steps == len(BATCHES)


@pytest.mark.parametrize("unscaled", [False, True], ids=["in the step", "before"])
def test_a_scaled_loss_gives_the_same_bits(unscaled):
    plain, sampler, _ = started()
    run(plain, sampler, BATCHES)
    network, sampler, _ = started()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)  # a power of two: exact
    for inputs, targets in BATCHES:
        sampler.zero_grad()
        scaler.scale(F.cross_entropy(network(inputs), targets)).backward()
        if unscaled:
            scaler.unscale_(sampler)
        scaler.step(sampler)
        scaler.update()
    assert_same_weights(network, plain)


def test_a_step_that_overflows_in_float16_adds_no_noise_and_does_not_count():
    torch.manual_seed(0)
    network = small_network()
    sampler = SGLD(network.parameters(), lr=0.2, num_data=96)
    attach_prior(PRIOR, network, layout_of(network), sampler)
    collector = Collector(network, layout_of(network), sampler, interval=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)  # far beyond float16
    skipped = 0
    for inputs, targets in BATCHES * 3:
        weights = [own.detach().clone() for own in network.parameters()]
        noise, steps = sampler.state_dict()["noise"], collector.steps
        sampler.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(network(inputs.float()), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(sampler)
        overflows = not all(bool(own.grad.isfinite().all()) for own in network.parameters())
        scaler.step(sampler)
        scaler.update()
        skipped += overflows
        assert collector.steps == steps + (not overflows)
        same_noise = torch.equal(noise[0], sampler.state_dict()["noise"][0])
        assert same_noise == overflows
        assert all(map(torch.equal, weights, network.parameters())) == overflows
    assert 0 < skipped < 18
    assert len(collector.samples) == collector.steps == 18 - skipped


def test_batches_that_accelerate_accumulates_are_one_step():
    accelerate = pytest.importorskip("accelerate")
    whole, sampler, _ = started()
    run(whole, sampler, BATCHES)
    network, sampler, collector = started()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    prepared, optimizer = accelerator.prepare(network, sampler)
    halves = [
        (inputs[half], targets[half])
        for inputs, targets in BATCHES
        for half in (slice(0, 8), slice(8, 16))
    ]
    for inputs, targets in halves:
        with accelerator.accumulate(prepared):
            accelerator.backward(F.cross_entropy(prepared(inputs), targets))
            optimizer.step()
            optimizer.zero_grad()
    assert collector.steps == len(BATCHES)
    assert_same_weights(network, whole, rtol=1e-12, atol=1e-12)


def test_an_optimiser_that_a_framework_wrapped_is_found_inside():
    accelerate = pytest.importorskip("accelerate")
    network = small_network()
    plain = torch.optim.SGD(network.parameters(), lr=0.1)
    wrapped = accelerate.Accelerator(cpu=True).prepare(plain)
    collector = Collector(network, layout_of(network), wrapped, interval=2)
    run(network, wrapped, [(inputs.float(), targets) for inputs, targets in BATCHES])
    assert [sample.step for sample in collector.samples] == [2, 4, 6]
