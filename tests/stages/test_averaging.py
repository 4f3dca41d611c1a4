"""Means of a chain's weights: which iterates they hold, when they are useless, and resuming."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from scenarios import mlp
from sparsemble.data import ArrayBatches, as_dataset
from sparsemble.layouts import layout_of
from sparsemble.priors import NoPrior
from sparsemble.samplers import Constant, SGLDSettings
from sparsemble.stages import Callback, ChainSettings, draw_samples
from sparsemble.stages.averaging import WindowMean, is_useless, loss_of
from sparsemble.tasks import Classification

TASK = Classification(num_classes=2)


@pytest.fixture(scope="module")
def batches() -> ArrayBatches:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 3, generator=generator)
    labels = (inputs.sum(1) > 0).long()
    return ArrayBatches(as_dataset(inputs, labels, num_classes=2), 10, seed=0)


def settings(**changes) -> ChainSettings:
    fields = {
        "sampler": SGLDSettings(temperature=0.5),
        "schedule": Constant(lr=0.05),
        "epochs": 6,
        "burn_in": 2,
        "interval": 2,
    }
    return ChainSettings(**(fields | changes))


class Iterates(Callback):
    """Every iterate of the network's parameters, by its step."""

    def __init__(self) -> None:
        self.seen: dict[int, dict[str, torch.Tensor]] = {}
        self.jumps: list = []

    def stepped(self, chain, step, loss, save):
        tensors = save().tensors
        self.seen[step] = {
            key.removeprefix("parameter/"): tensor.double()
            for key, tensor in tensors.items()
            if key.startswith("parameter/")
        }

    def jumped(self, jump):
        self.jumps.append(jump)


def drawn(batches, chosen, callback=None):
    torch.manual_seed(0)
    network = mlp(3, 4, 2).float()
    return draw_samples(
        network, layout_of(network), TASK, batches, NoPrior(), chosen, seed=1, callback=callback
    )


@pytest.mark.parametrize("every", [1, 4])
def test_a_sample_is_the_mean_of_every_kth_iterate_of_its_interval(batches, every):
    log = Iterates()
    samples = drawn(batches, settings(average_every=every), log)
    assert [sample.step for sample in samples] == [24, 36]
    for sample, first in zip(samples, (12, 24), strict=True):
        steps = range(first + every, sample.step + 1, every)
        for name, mean in sample.parameters.items():
            expected = torch.stack([log.seen[step][name] for step in steps]).mean(0)
            assert torch.allclose(mean.double(), expected, atol=1e-6)
    assert not log.jumps


def test_keeping_a_mean_does_not_disturb_the_chain(batches):
    with_mean, without = Iterates(), Iterates()
    drawn(batches, settings(), with_mean)
    drawn(batches, settings(collection="thinned"), without)
    last = max(without.seen)
    assert all(
        torch.equal(with_mean.seen[last][name], tensor)
        for name, tensor in without.seen[last].items()
    )


def test_the_mean_of_a_chain_that_jumped_is_replaced_by_the_iterate_and_told(batches):
    """Two good networks whose mean knows nothing: the sign of all hidden weights turned."""
    network = nn.Sequential(nn.Linear(3, 1, bias=False), nn.Tanh(), nn.Linear(1, 2, bias=False))
    with torch.no_grad():
        network[0].weight.fill_(1.0)
        network[2].weight.copy_(torch.tensor([[-3.0], [3.0]]))
    tensors = list(network.parameters())
    mean = WindowMean(tensors, every=1)
    for step in (1, 2):
        with torch.no_grad():
            for tensor in tensors:
                tensor.neg_()
        mean.stepped(step)
    value = dict(zip(("0.weight", "2.weight"), mean.value(), strict=True))
    assert all(not tensor.any() for tensor in value.values())
    own = loss_of(network, TASK, batches)
    for name, parameter in network.named_parameters():
        parameter.data.copy_(value[name])
    averaged = loss_of(network, TASK, batches)
    assert is_useless(averaged, own, TASK.guess(batches))
    assert averaged == pytest.approx(0.6931, abs=1e-3)  # of guessing between two classes
    assert own < 0.4


def test_a_mean_as_good_as_its_iterates_is_kept(batches):
    loss = loss_of(mlp(3, 4, 2).float(), TASK, batches)
    assert not is_useless(loss, loss, TASK.guess(batches))


def test_a_chain_that_leaps_about_falls_back_to_its_iterates(batches):
    log = Iterates()
    leaping = settings(schedule=Constant(lr=20.0), sampler=SGLDSettings(temperature=30.0))
    calm = leaping.divergence.model_copy(update={"rise": 1e6})
    samples = drawn(batches, leaping.model_copy(update={"divergence": calm}), log)
    assert log.jumps
    for jump in log.jumps:
        (sample,) = (s for s in samples if s.step == jump.step)
        assert all(
            torch.equal(tensor.double(), log.seen[jump.step][name])
            for name, tensor in sample.parameters.items()
        )
        assert jump.mean > jump.iterate


def test_a_window_that_begins_anew_forgets_the_one_before():
    tensor = torch.ones(2)
    mean = WindowMean([tensor], every=2)
    for step in range(1, 5):
        mean.stepped(step)
    assert mean.count == 2
    mean.begin(0)
    assert mean.count == 2
    mean.begin(4)
    tensor.fill_(5.0)
    mean.stepped(5)
    mean.stepped(6)
    assert mean.count == 1
    assert mean.value()[0].tolist() == [5.0, 5.0]


def test_an_empty_window_gives_the_tensors_themselves():
    tensor = torch.arange(3.0)
    assert torch.equal(WindowMean([tensor], every=100).value()[0], tensor)


def test_a_restored_mean_goes_on_to_the_same_bits():
    tensor = torch.zeros(4)
    generator = torch.Generator().manual_seed(0)
    whole, first = WindowMean([tensor], every=1), WindowMean([tensor], every=1)
    second = WindowMean([tensor], every=1)
    for step in range(1, 11):
        tensor.normal_(generator=generator)
        whole.stepped(step)
        (first if step <= 5 else second).stepped(step)
        if step == 5:
            second.restore(*first.state())
    assert torch.equal(whole.value()[0], second.value()[0])


def test_what_diverged_before_a_window_is_not_in_its_mean():
    weights = torch.ones(3)
    mean = WindowMean([weights], every=1)
    weights.fill_(torch.nan)
    mean.stepped(1)
    mean.restore({}, {"since": 0, "count": 0})  # a chain thrown back to its beginning
    weights.fill_(2.0)
    mean.stepped(1)
    weights.fill_(4.0)
    mean.stepped(2)
    assert torch.equal(mean.value()[0], torch.full((3,), 3.0))


def test_the_mean_of_halves_does_not_stop_at_the_first_ones():
    weights = torch.zeros(1, dtype=torch.bfloat16)
    mean = WindowMean([weights], every=1)
    for step in range(1, 1001):
        weights.fill_(float(step > 500))
        mean.stepped(step)
    (found,) = mean.value()
    assert found.dtype is torch.bfloat16
    assert float(found) == pytest.approx(0.5, abs=0.005)


def test_a_short_window_still_has_two_iterates(batches):
    """Fewer would be no mean, whatever `average_every` says."""
    log = Iterates()
    few = ArrayBatches(
        as_dataset(batches.inputs, batches.targets, num_classes=2), batch_size=60, seed=0
    )
    samples = drawn(few, settings(average_every=5, interval=4, epochs=6), log)
    assert [sample.step for sample in samples] == [6]
    for name, mean in samples[0].parameters.items():
        expected = (log.seen[4][name] + log.seen[6][name]) / 2
        assert torch.allclose(mean.double(), expected, atol=1e-6)
