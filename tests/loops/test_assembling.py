"""Stage 2 for samples of a loop of one's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from own_loops import batches_of, blobs, run, sampled, small_network
from several_inputs import Siamese
from sparsemble import (
    Classification,
    Collector,
    Ensemble,
    InputError,
    Regression,
    assemble,
    attach_prior,
    compact,
    describe,
    layout_of,
    prune,
    retrain,
)
from sparsemble.members import filled
from sparsemble.nets import GaussianNoise
from sparsemble.priors import GroupSparse
from sparsemble.samplers import SGLD, Constant
from sparsemble.stages import PruneSettings, RetrainSettings

pytestmark = pytest.mark.slow

DATA = blobs()
BATCHES = batches_of(DATA)
PRIOR = GroupSparse(penalty=1e-3)
RETRAIN = RetrainSettings(schedule=Constant(lr=0.1), epochs=3, batch_size=16)


@pytest.fixture(scope="module")
def collector() -> Collector:
    torch.manual_seed(0)
    return sampled(small_network(), BATCHES * 10, burn_in=20, interval=20)


class Normalised(nn.Module):
    """With batch normalisation, of any outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(5, 12), nn.BatchNorm1d(12), nn.Linear(12, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


class Noisy(nn.Module):
    """Two inputs, a number and the noise it has."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.noise = Siamese(outputs=1), GaussianNoise(1)

    def forward(self, left, right):
        return self.noise(self.mean(left, right))


@pytest.fixture(scope="module")
def normalised() -> Collector:
    torch.manual_seed(0)
    network = Normalised()
    traced = describe(network, BATCHES[0][0])
    sampler = SGLD(network.parameters(), lr=0.1, num_data=96, temperature=0.01)
    attach_prior(PRIOR, network, traced, sampler)
    collector = Collector(network, traced, sampler, burn_in=30, interval=30)
    run(network, sampler, BATCHES * 15)
    return collector


def test_it_is_the_stages_one_after_the_other(collector):
    how = PruneSettings(sparsity=0.6)
    found = assemble(collector, DATA, prune=how, retrain=RETRAIN, prior=PRIOR, seed=4)
    network, layout = collector.laid_out.network, layout_of(small_network())
    training = Classification().training(DATA, seed=4, outputs=3)
    members = []
    for sample in collector.samples:
        own = filled(network, sample.parameters)
        members.append(compact(own, layout, prune(sample.parameters, layout, sparsity=0.6)))
    retrain(members, training.task, training.batches(16), PRIOR, RETRAIN, seed=4)
    for mine, theirs in zip(found, members, strict=True):
        assert mine.cost == theirs.cost
        assert mine.cost.parameters < 0.45 * mine.dense_cost.parameters
        assert all(map(torch.equal, mine.network.parameters(), theirs.network.parameters()))


def test_without_pruning_the_samples_are_the_members(collector):
    ensemble = assemble(collector, DATA)
    for member, sample in zip(ensemble, collector.samples, strict=True):
        own = dict(member.network.named_parameters())
        assert all(torch.equal(own[name], kept) for name, kept in sample.parameters.items())


def test_a_budget_is_kept_in_rounds_too_and_posterior_targets_are_learned(collector):
    how = PruneSettings(flops=0.8, parameters=0.6, steps=2)
    taught = RETRAIN.model_copy(update={"targets": "posterior"})
    ensemble = assemble(collector, DATA, prune=how, retrain=taught, prior=PRIOR)
    assert ensemble.cost.flops_ratio <= 0.8
    assert ensemble.cost.parameters_ratio <= 0.6
    assert ensemble.evaluate(blobs(seed=1))["error"] < 0.1
    with pytest.raises(InputError, match=r"prune.steps = 2 trains members between the rounds"):
        assemble(collector, DATA, prune=how)


def test_the_ensemble_is_saved_loaded_and_exported_as_any_other(normalised, tmp_path):
    ensemble = assemble(normalised, DATA, prune=PruneSettings(flops=1.0), retrain=RETRAIN)
    points = blobs(seed=1)
    assert ensemble.evaluate(points)["error"] < 0.1
    ensemble.save(tmp_path / "ensemble")
    again = Ensemble.load(tmp_path / "ensemble")
    expected = ensemble.predict_proba(points.inputs)
    np.testing.assert_array_equal(again.predict_proba(points.inputs), expected)
    ensemble.export(tmp_path / "model.onnx")  # which compares it in ONNX Runtime
    assert (tmp_path / "model.onnx").is_file()


def test_statistics_of_a_mean_are_those_of_its_own_activations(normalised):
    ensemble = assemble(normalised, DATA)  # 96 examples are one batch
    for member, sample in zip(ensemble, normalised.samples, strict=True):
        weights = sample.parameters
        activations = F.linear(DATA.inputs, weights["first.weight"], weights["first.bias"])
        found = dict(member.network.named_buffers())
        torch.testing.assert_close(found["norm.running_mean"], activations.mean(0))
        torch.testing.assert_close(found["norm.running_var"], activations.var(0))
        assert not torch.allclose(found["norm.running_mean"], weights["norm.running_mean"])


def test_a_loader_draws_as_its_own_sampler_says_in_both_stages():
    torch.manual_seed(0)
    never_two = WeightedRandomSampler((DATA.targets < 2).double(), 96)
    loader = DataLoader(TensorDataset(DATA.inputs, DATA.targets), 16, sampler=never_two)
    network = small_network()
    with torch.no_grad():
        network[2].bias[2] = -9.0  # so that it must be learned, were it ever seen
    batches = (batch for _ in range(20) for batch in loader)
    collector = sampled(network, batches, burn_in=60, interval=30)
    how = PruneSettings(sparsity=0.5)
    ensemble = assemble(collector, loader, prune=how, retrain=RETRAIN, prior=PRIOR)
    predicted, true = ensemble.predict(DATA.inputs), DATA.targets.numpy()
    assert (predicted[true < 2] == true[true < 2]).mean() > 0.9
    assert set(predicted) == {0, 1}
    probabilities = ensemble.predict_proba(DATA.inputs)
    assert probabilities[:, 2].max() < 0.01


def test_a_collector_without_samples_is_refused():
    empty = sampled(small_network(), BATCHES, interval=7)
    with pytest.raises(InputError, match="no samples after 6 steps: let the loop run longer"):
        assemble(empty, DATA)


def test_data_of_another_kind_are_refused(collector):
    wide = (torch.randn(9, 6), torch.arange(9) % 3)
    with pytest.raises(InputError, match="6"):
        assemble(collector, wide)
    with pytest.raises(InputError, match="4 classes"):
        assemble(collector, (torch.randn(8, 5), torch.arange(8) % 4))


def test_inputs_may_have_names_and_numbers_may_be_predicted():
    torch.manual_seed(0)
    left, right = torch.randn(2, 96, 4)
    data = ({"left": left, "right": right}, (left * right).sum(1))
    task = Regression().training(data).task
    network = Noisy()
    traced = describe(network, left=left[:3], right=right[:3])
    sampler = SGLD(network.parameters(), lr=0.05, num_data=96, temperature=1e-3)
    attach_prior(PRIOR, network, traced, sampler)
    collector = Collector(network, traced, sampler, burn_in=400, interval=200)
    for _ in range(600):
        sampler.zero_grad()
        task.loss(network(left=left, right=right), data[1].unsqueeze(1)).backward()
        sampler.step()
    ensemble = assemble(collector, data, task=Regression(), prune=PruneSettings(sparsity=0.2))
    assert ensemble.evaluate(data)["rmse"] < 0.6 * float(data[1].std())
    named = ensemble.predict({"right": right[:5], "left": left[:5]})
    np.testing.assert_allclose(named, ensemble.predict(data[0])[:5], rtol=1e-4)
