"""What a collector takes of a running network, and what it refuses."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from own_loops import batches_of, blobs, run, sampled, small_network
from sparsemble import Collector, DivergedError, InputError, attach_prior, describe, layout_of
from sparsemble.priors import GroupSparse
from sparsemble.samplers import PSGLD, SGHMC, SGLD

BATCHES = batches_of(blobs())  # six of them


def collecting(network: nn.Module, optimizer: torch.optim.Optimizer, **how) -> Collector:
    return Collector(network, layout_of(network), optimizer, **how)


def iterates(network: nn.Module, optimizer: torch.optim.Optimizer, steps: int):
    """The network's weights after each of so many steps of the loop."""
    found = []
    for number in range(steps):
        run(network, optimizer, [BATCHES[number % len(BATCHES)]])
        found.append({name: own.detach().clone() for name, own in network.named_parameters()})
    return found


def test_a_mean_is_the_mean_of_every_so_many_iterates():
    network = small_network().double()
    sampler = SGLD(network.parameters(), lr=0.1, num_data=96)
    collector = collecting(network, sampler, burn_in=4, interval=6, average_every=2)
    data = [(inputs.double(), targets) for inputs, targets in BATCHES]
    seen = []
    for number in range(16):
        run(network, sampler, [data[number % 6]])
        seen.append(copy.deepcopy(dict(network.named_parameters())))
    first, second = collector.samples
    assert (first.step, second.step) == (10, 16)
    for sample, window in ((first, (5, 7, 9)), (second, (11, 13, 15))):  # steps 6, 8, 10; …
        for name, mean in sample.parameters.items():
            plain = torch.stack([seen[number][name].detach() for number in window]).mean(0)
            torch.testing.assert_close(mean, plain, rtol=1e-13, atol=1e-15)


def test_thinned_samples_are_iterates_and_only_the_last_are_kept():
    network = small_network()
    sampler = SGLD(network.parameters(), lr=0.1, num_data=96)
    how = {"burn_in": 2, "interval": 3, "collection": "thinned", "keep": 2}
    collector = collecting(network, sampler, **how)
    seen = iterates(network, sampler, 12)
    assert [sample.step for sample in collector.samples] == [8, 11]
    for sample in collector.samples:
        assert all(
            torch.equal(own, seen[sample.step - 1][n]) for n, own in sample.parameters.items()
        )


def test_a_sample_can_be_taken_at_any_time_and_its_window_ends_there():
    network = small_network()
    sampler = SGLD(network.parameters(), lr=0.1, num_data=96)
    collector = collecting(network, sampler, interval=100, average_every=1)
    seen = iterates(network, sampler, 2)
    taken = collector.take()
    mean = torch.stack([own["0.weight"] for own in seen]).mean(0)
    torch.testing.assert_close(taken.parameters["0.weight"], mean)
    (last,) = iterates(network, sampler, 1)
    assert torch.equal(collector.take().parameters["0.weight"], last["0.weight"])


@pytest.mark.parametrize("kind", [SGLD, SGHMC, PSGLD])
@pytest.mark.parametrize("collection", ["means", "cycles"])
def test_a_resumed_loop_gives_the_same_bits(kind, collection):
    interval = {"interval": 7} if collection == "means" else {}

    def begin():
        torch.manual_seed(3)
        network = small_network()
        sampler = kind(network.parameters(), lr=0.01, num_data=96, temperature=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(sampler, 5)
        attach_prior(GroupSparse(penalty=1e-3), network, layout_of(network), sampler)
        collector = collecting(network, sampler, burn_in=3, collection=collection, **interval)
        return network, sampler, schedule, collector

    def go_on(parts, steps: range) -> None:
        network, sampler, schedule, _ = parts
        for step in steps:
            run(network, sampler, [BATCHES[step % 6]])
            schedule.step()

    whole = begin()
    go_on(whole, range(24))
    stopped = begin()
    go_on(stopped, range(13))
    file = io.BytesIO()
    torch.save([part.state_dict() for part in stopped], file)
    file.seek(0)
    resumed = begin()
    for part, state in zip(resumed, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    go_on(resumed, range(13, 24))
    expected, found = whole[-1], resumed[-1]
    assert found.steps == 24
    assert len(expected.samples) == {"means": 3, "cycles": 4}[collection]
    for mine, theirs in zip(found.samples, expected.samples, strict=True):
        assert mine.step == theirs.step
        assert all(torch.equal(own, theirs.parameters[n]) for n, own in mine.parameters.items())


def test_a_state_of_another_collector_is_refused_and_changes_nothing():
    collector = sampled(small_network(), BATCHES, interval=3)
    other = sampled(nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3)), BATCHES, interval=2)
    before = [sample.step for sample in collector.samples]
    for state in (other.state_dict(), {"steps": 3}, {}):
        with pytest.raises(InputError, match="not one of such a collector"):
            collector.load_state_dict(state)
    assert [sample.step for sample in collector.samples] == before == [3, 6]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "interval = None with collection = 'means'"),
        ({"interval": 5, "collection": "cycles"}, "cycles have none"),
        ({"interval": 0}, "interval = 0: must be at least 1"),
        ({"interval": 5, "burn_in": -1}, "burn_in = -1"),
        ({"interval": 5, "keep": 0}, "keep = 0"),
        ({"interval": 5, "average_every": 0}, "average_every = 0"),
        ({"interval": 5, "collection": "all"}, "'all' is not 'means', 'thinned' or 'cycles'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(how, words):
    network = small_network()
    with pytest.raises(InputError, match=words):
        collecting(network, torch.optim.SGD(network.parameters()), **how)


def test_a_network_that_diverged_gives_no_sample():
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e30)
    collector = collecting(network, optimizer, interval=6)
    with pytest.raises(DivergedError, match=r"step 6: '.*' is not finite any more; lower"):
        run(network, optimizer, BATCHES)
    assert collector.samples == []


class TestBinding:
    """A network that is not, or no longer, the one that was described."""

    def test_a_layout_of_another_size_is_refused(self):
        small, large = small_network(), nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 3))
        optimizer = torch.optim.SGD(large.parameters())
        with pytest.raises(InputError, match="describe this one"):
            Collector(large, layout_of(small), optimizer, interval=1)
        with pytest.raises(InputError, match="covers positions 0:20"):
            attach_prior(GroupSparse(penalty=1.0), small, layout_of(large), optimizer)

    def test_a_description_that_is_none_is_refused(self):
        network = small_network()
        with pytest.raises(InputError, match="a Tensor does not describe a network"):
            Collector(network, torch.ones(2), torch.optim.SGD(network.parameters()), interval=1)

    @pytest.mark.slow
    @pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile], ids=["parallel", "compiled"])
    def test_a_network_that_is_not_the_one_traced_is_refused(self, wrap):
        network = small_network()
        traced = describe(network, BATCHES[0][0])
        optimizer = torch.optim.SGD(network.parameters())
        with pytest.raises(InputError, match="wrapped since, give the one inside"):
            Collector(wrap(network), traced, optimizer, interval=1)
        network[0].weight.requires_grad_(False)
        with pytest.raises(InputError, match=r"'0.weight' has been frozen, or set free, since"):
            attach_prior(GroupSparse(penalty=1.0), network, traced, optimizer)
        with pytest.raises(InputError, match=r"is torch.float64 of .* in the description torch.fl"):
            Collector(small_network().double(), traced, optimizer, interval=1)
        narrow = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3))
        with pytest.raises(InputError, match=r"of shape \(9, 5\), in the description torch"):
            Collector(narrow, traced, torch.optim.SGD(narrow.parameters()), interval=1)

    @pytest.mark.parametrize(
        "wrap",
        [nn.DataParallel, lambda network: torch.compile(network, backend="eager")],
        ids=["parallel", "compiled"],
    )
    def test_a_network_may_be_wrapped_afterwards(self, wrap):
        plain, inside = small_network(), small_network()
        inside.load_state_dict(plain.state_dict())
        expected = sampled(plain, BATCHES, interval=3)
        sampler = SGLD(inside.parameters(), lr=0.2, num_data=96, temperature=0.01)
        attach_prior(GroupSparse(penalty=1e-3), inside, layout_of(inside), sampler)
        collector = collecting(inside, sampler, interval=3)
        run(wrap(inside), sampler, BATCHES)
        for mine, theirs in zip(collector.samples, expected.samples, strict=True):
            assert all(torch.equal(t, theirs.parameters[n]) for n, t in mine.parameters.items())

    def test_a_network_that_was_moved_or_rebuilt_is_refused(self):
        def moved(network):
            network.double()

        def rebuilt(network):
            network[0].weight = nn.Parameter(network[0].weight.detach().clone())

        for change in (moved, rebuilt):
            network = small_network()
            optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
            collecting(network, optimizer, interval=1)
            change(network)
            with pytest.raises(InputError, match=r"'0.weight' is no longer .* the collector"):
                optimizer.step()

    def test_the_optimiser_of_another_network_is_refused(self):
        network = small_network()
        optimizer = torch.optim.SGD(copy.deepcopy(network).parameters())
        with pytest.raises(InputError, match=r"SGD does not move '0.weight', on which the coll"):
            collecting(network, optimizer, interval=1)

    @pytest.mark.parametrize("kind", [SGLD, SGHMC, PSGLD])
    def test_a_sampler_needs_the_number_of_examples(self, kind):
        with pytest.raises(InputError, match="num_data = None: the number of training examples"):
            kind(small_network().parameters(), lr=0.1)


def test_infinities_of_a_mask_are_no_divergence():
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 3)
            self.register_buffer("mask", torch.tensor([0.0, 0.0, -torch.inf, 0.0]))

        def forward(self, x):
            return self.last((self.first(x) + self.mask).softmax(-1))

    network = Masked()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    collector = Collector(network, describe(network, torch.randn(3, 2)), optimizer, interval=1)
    network(torch.randn(3, 2)).sum().backward()
    optimizer.step()
    assert len(collector.samples) == 1
