"""Means of means, and the members that a budget is spent on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sparsemble
from small_runs import network, recipe
from sparsemble.errors import InputError
from sparsemble.learning.candidates import means_of, recent
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.stages import PruneSettings, Sample
from sparsemble.structure import Layout

pytestmark = pytest.mark.slow

LAYOUT = Layout((), (), ())
NETWORK = nn.Linear(1, 1)


def samples(*chains: int) -> list[Sample]:
    """So many samples of each chain, whose one weight is their number."""
    return [
        Sample(chain, step, {"w": torch.tensor([10.0 * chain + step])})
        for chain, count in enumerate(chains)
        for step in range(1, count + 1)
    ]


def weights(means: list[Sample] | None) -> list[float] | None:
    return None if means is None else [float(mean.parameters["w"]) for mean in means]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [2.5]), (2, [1.5, 3.5]), (4, [1, 2, 3, 4]), (8, None)]
)
def test_neighbours_of_one_chain_are_averaged(count, expected):
    assert weights(means_of(samples(4), count, LAYOUT, NETWORK)) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [1.5]), (2, [1.5, 11.5]), (4, [1, 2, 11, 12]), (8, None)]
)
def test_samples_of_different_chains_are_never_averaged(count, expected):
    assert weights(means_of(samples(2, 2), count, LAYOUT, NETWORK)) == expected


def alike(own):
    return torch.zeros(50)


def test_the_last_samples_of_every_chain_count_as_many_as_can_be_shared_out():
    assert [(s.chain, s.step) for s in recent(samples(7, 5), alike)] == [
        *((0, step) for step in (4, 5, 6, 7)),
        *((1, step) for step in (2, 3, 4, 5)),
    ]
    assert len(recent(samples(30), alike)) == 8


def test_samples_that_were_on_their_way_are_left_out_if_that_is_clearly_better():
    def scored(own):
        """The later the better, on average."""
        drawn = torch.randn(50, generator=torch.Generator().manual_seed(len(own)))
        return 0.1 * drawn - min(sample.step for sample in own)

    assert [(s.chain, s.step) for s in recent(samples(4, 4), scored)] == [(0, 4), (1, 4)]
    assert [s.step for s in recent(samples(4), scored, usual=2)] == [3, 4]
    drawn = torch.Generator().manual_seed(0)
    little = {n: torch.randn(50, generator=drawn) - 1e-3 / n for n in (8, 4, 2)}
    assert len(recent(samples(4, 4), lambda own: little[len(own)])) == 8


def chosen(**changes):
    return recipe(prune=PruneSettings(flops=1.0, parameters=0.8, steps=2), choose=True, **changes)


def test_the_best_candidate_on_validation_data_is_the_ensemble(arrays):
    inputs, targets = arrays
    held = (inputs[:40], targets[:40])
    learned = sparsemble.learn(network(), (inputs[40:], targets[40:]), chosen(), validation=held)
    assert learned.chosen is not None
    best = learned.candidates[learned.chosen]
    score = learned.ensemble.evaluate(held)
    assert score["nll"] == best.figure
    assert len(learned.ensemble) == best.members
    assert learned.ensemble.cost.flops_ratio == best.flops
    assert all(c.flops <= 1 and c.parameters <= 0.8 for c in learned.candidates)
    assert {candidate.retrained for candidate in learned.candidates} == {False, True}


def test_without_validation_data_a_part_of_the_examples_is_set_aside_by_the_seed(arrays):
    seen = [sparsemble.learn(network(), arrays, chosen()).candidates for _ in range(2)]
    assert seen[0] == seen[1]


def test_the_dense_network_beside_it_is_the_best_of_its_snapshots(arrays):
    inputs, targets = arrays
    held = (inputs[:40], targets[:40])
    dense = dense_recipe(chosen())
    learned = sparsemble.learn(network(), (inputs[40:], targets[40:]), dense, validation=held)
    assert len(learned.ensemble) == 1
    assert learned.ensemble.cost.flops_ratio == 1
    # After 1/15, 3/15, 7/15 and all of 220 steps.
    assert [record.step for record in learned.history.samples] == [15, 44, 103, 220]
    assert dense.chain.sampler.temperature == 0
    # Every snapshot is taken where the rate has just fallen from 0.3 to a fiftieth.
    for end in (20 / 15, 60 / 15, 140 / 15):
        assert dense.chain.schedule(end + 1e-9) == pytest.approx(0.3)
        assert dense.chain.schedule(end - 1e-9) == pytest.approx(0.006)


def test_patience_ends_a_chain_early_and_resumes_to_the_same_bits(arrays, tmp_path):
    how = chosen()
    chain = how.chain.model_copy(update={"patience": 1, "burn_in": 0, "interval": 1, "epochs": 300})
    impatient = how.model_copy(update={"chain": chain})
    whole = sparsemble.learn(network(), arrays, impatient)
    again = [sparsemble.learn(network(), arrays, impatient, folder=tmp_path) for _ in range(2)]
    epochs = [max(r.epoch for r in run.history.epochs if r.stage == "chain") for run in again]
    assert epochs[0] == epochs[1] < 300
    assert [run.candidates for run in again] == [whole.candidates] * 2


def test_to_choose_from_a_data_loader_validation_data_are_asked_for(arrays):
    inputs, targets = (torch.as_tensor(part) for part in arrays)
    data = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(data, 25)
    with pytest.raises(InputError, match="give validation data"):
        sparsemble.learn(network(), loader, chosen())


def test_choosing_needs_a_budget_of_the_whole_ensemble():
    with pytest.raises(ValueError, match="choose = true needs a budget"):
        recipe(choose=True)
    with pytest.raises(ValueError, match="choose = true needs a budget"):
        recipe(prune=PruneSettings(flops=0.5, per="member"), choose=True)


def timed(monkeypatch, *times):
    """Predictions take so long, one measurement after the other."""
    found = iter(times)
    monkeypatch.setattr(
        "sparsemble.learning.choice.prediction_times", lambda *_: {1: next(found), 1000: 0.1}
    )


def limited(latency):
    prune = PruneSettings(flops=1.0, parameters=0.8, latency=latency, steps=2)
    return recipe(prune=prune, choose=True)


def test_members_that_take_too_long_are_not_chosen(arrays, tmp_path, monkeypatch):
    timed(monkeypatch, 1.3, 1.2, 0.9, 1.1, 2.0, 2.0)
    learned = sparsemble.learn(network(), arrays, limited(1.0), folder=tmp_path)
    assert [c.latency for c in learned.candidates[:4]] == [1.3, 1.2, 0.9, 1.1]
    assert learned.chosen == 2
    timed(monkeypatch)  # what was measured once is not measured again
    again = sparsemble.learn(network(), arrays, limited(1.0), folder=tmp_path)
    assert again.candidates == learned.candidates


def test_a_latency_that_no_members_have_is_refused_with_the_least_there_is(arrays, monkeypatch):
    timed(monkeypatch, 1.5, 1.25, *[1.5] * 6)
    with pytest.raises(InputError, match=r"prune.latency = 0.5 is too small: .* 1.2 times as long"):
        sparsemble.learn(network(), arrays, limited(0.5))


def test_one_sample_that_is_chosen_as_it_is_is_not_retrained():
    with pytest.raises(ValueError, match=r"choose = true without \[prune\] takes one sample"):
        recipe(prune=None, choose=True)


def test_a_latency_is_for_members_that_are_chosen():
    with pytest.raises(ValueError, match=r"prune.latency = 1 needs choose = true"):
        recipe(prune=PruneSettings(flops=1.0, latency=1.0))
