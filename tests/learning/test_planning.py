"""Settings that fit themselves: what trials find, and a budget that needs no recipe."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import sparsemble
from small_runs import KillAt, Killed, Shifted, examples, network, predictions
from sparsemble import Budget
from sparsemble.augmentations import InputDropout
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.learning import planning
from sparsemble.learning.trials import Trial, Trials
from sparsemble.priors import GroupSparse
from sparsemble.samplers import Constant
from sparsemble.stages.unit_pruning import least_flops

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("short_trials")]


@pytest.fixture
def short_trials(monkeypatch):
    """Trials and chains that take a moment."""
    monkeypatch.setattr(planning, "_FEWEST_STEPS", 20)
    monkeypatch.setattr(planning, "_MOST_STEPS", 20)
    monkeypatch.setattr(planning.Planner, "_length", lambda self: 20)


@cache
def planned():
    """What trials find; to be asked for while they are short."""
    return sparsemble.plan(network, examples(), Budget(flops=1.0))


def found(figure: float) -> Trial:
    """A trial whose every example has the same score."""
    return Trial(torch.full((10,), figure), 0.5)


def test_a_budget_is_kept_without_a_recipe_and_the_settings_are_told(arrays):
    learned = sparsemble.learn(network, arrays, budget=Budget(flops=0.8, parameters=0.5))
    cost = learned.ensemble.cost
    assert cost.flops_ratio <= 0.8
    assert cost.parameters_ratio <= 0.5
    assert learned.ensemble.evaluate(arrays)["error"] < 0.25
    assert learned.recipe.chain.schedule(0) > 0
    assert learned.recipe.prior.group_penalty > 0


def test_the_rate_found_is_the_best_of_the_ladder(arrays, monkeypatch):
    tried: dict[float, float] = {}

    def trial(self, lr, temperature, prior):
        if temperature:
            return found(1.0)
        tried[lr] = abs(np.log(lr / 0.09))
        return found(tried[lr])

    monkeypatch.setattr(planning.Planner, "_trial", trial)
    recipe = sparsemble.plan(network, arrays, Budget(flops=1.0))
    assert isinstance(recipe.chain.schedule, Constant)
    assert recipe.chain.schedule.lr == 0.1
    assert list(tried) == [0.01, 0.03, 0.1, 0.3, 1.0]


def test_penalty_and_temperature_are_the_best_that_were_tried(arrays, monkeypatch):
    def trial(self, lr, temperature, prior):
        if not isinstance(prior, GroupSparse):
            return found(lr)
        rate = prior.penalty * self._batches.num_data
        figure = abs(np.log(rate / 0.1)) + abs(np.log10(temperature / 4e-3))
        return found(figure)

    monkeypatch.setattr(planning.Planner, "_trial", trial)
    recipe = sparsemble.plan(network, arrays, Budget(flops=1.0))
    examples = round(0.8 * len(arrays[1]))
    assert recipe.prior.group_penalty == pytest.approx(0.1 / examples)
    # At 1e-3 noise is half the gradient: equal at four times that temperature.
    assert recipe.chain.sampler.temperature == pytest.approx(4e-3)


def test_settings_that_validation_data_cannot_tell_apart_leave_what_is_usual(arrays, monkeypatch):
    noise = torch.Generator().manual_seed(0)

    def trial(self, lr, temperature, prior):
        # Each a little better than the one before, which is lost in the examples' differences.
        scores = torch.randn(10, generator=noise) - 0.01 * lr
        return Trial(5 - scores.sort().values, 0.5)

    monkeypatch.setattr(planning.Planner, "_trial", trial)
    monkeypatch.setattr("sparsemble.learning.trials.is_better", lambda own, other: False)
    recipe = sparsemble.plan(network, arrays, Budget(flops=1.0))
    assert recipe.chain.schedule(0) == 0.01
    assert recipe.prior.group_penalty * round(0.8 * len(arrays[1])) == pytest.approx(0.1)


def test_rates_that_diverge_end_the_ladder(arrays, monkeypatch):
    def trial(self, lr, temperature, prior):
        return None if lr > 0.05 else found(1 / lr)

    monkeypatch.setattr(planning.Planner, "_trial", trial)
    recipe = sparsemble.plan(network, arrays, Budget(flops=1.0))
    assert recipe.chain.schedule(0) == 0.03


def test_a_network_that_always_diverges_is_refused(arrays, monkeypatch):
    monkeypatch.setattr(planning.Planner, "_trial", lambda self, *_, **__: None)
    with pytest.raises(InputError, match=r"even at a learning rate of 0\.01"):
        sparsemble.plan(network, arrays, Budget(flops=1.0))


def test_inputs_are_perturbed_in_trials_chain_and_retraining(arrays):
    recipe = sparsemble.plan(network, arrays, Budget(flops=1.0), augment=InputDropout(share=0.1))
    assert recipe.chain.augment == InputDropout(share=0.1)
    assert recipe.retrain is not None
    assert recipe.retrain.augment == InputDropout(share=0.1)


@pytest.mark.thorough  # so do trials that were stopped
def test_the_same_seed_finds_the_same_settings(arrays):
    assert sparsemble.plan(network, arrays, Budget(flops=1.0)) == planned()


def test_trials_that_were_done_are_not_run_again_when_planning_was_stopped(
    arrays, tmp_path, monkeypatch
):
    whole = planned()
    real, left = Trials._scores, [12]

    def killed(self, *given):
        left[0] -= 1
        if not left[0]:
            raise Killed
        return real(self, *given)

    monkeypatch.setattr(Trials, "_scores", killed)
    with pytest.raises(Killed):
        sparsemble.plan(network, arrays, Budget(flops=1.0), folder=tmp_path)
    kept = len(list(tmp_path.iterdir()))
    assert kept > 0
    left[0] = 1000
    assert sparsemble.plan(network, arrays, Budget(flops=1.0), folder=tmp_path) == whole
    trials, splits = len(list(tmp_path.iterdir())), planning._SPLITS
    assert 1000 - left[0] <= (trials - kept) * splits  # fewer where one diverged
    left[0] = 1
    with pytest.raises(Killed):  # by a trial: those of another seed are others
        sparsemble.plan(network, arrays, Budget(flops=1.0), seed=1, folder=tmp_path)


@pytest.mark.thorough  # `test_budget_runs.py` resumes one as well
def test_a_killed_run_for_a_budget_goes_on_without_new_trials(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    monkeypatch.setattr(planning.Planner, "_length", lambda self: 5)
    budget = Budget(flops=1.0, parameters=0.7)
    whole = sparsemble.learn(network, arrays, budget=budget)
    for stage in ("chain", "members-2-retrain", "members-1-prune-1"):
        with pytest.raises(Killed):
            sparsemble.learn(
                network, arrays, budget=budget, folder=tmp_path, callback=KillAt(stage, 5)
            )
        monkeypatch.setattr(planning.Planner, "recipe", None)
    resumed = sparsemble.learn(network, arrays, budget=budget, folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    assert resumed.candidates == whole.candidates


def test_raw_features_of_very_different_sizes_are_scaled(arrays):
    inputs, targets = arrays
    sizes = 10.0 ** np.arange(inputs.shape[1])
    learned = sparsemble.learn(network, (inputs * sizes, targets), budget=Budget(flops=1.0))
    assert learned.ensemble.evaluate((inputs * sizes, targets))["error"] < 0.25
    assert not learned.ensemble.task.scalings["inputs"].is_identity


def test_a_recipe_and_a_budget_contradict_each_other(arrays):
    with pytest.raises(InputError, match="a recipe says itself what it prunes to"):
        sparsemble.learn(network, arrays, planned(), budget=Budget(flops=1.0))


def test_a_budget_that_no_network_can_meet_is_refused_before_anything_is_tried(arrays, monkeypatch):
    monkeypatch.setattr(planning.Planner, "_trial", None)
    with pytest.raises(InputError, match=r"prune\.flops = 0\.0001 .* at least 0\.0"):
        sparsemble.learn(network, arrays, budget=Budget(flops=1e-4))


def test_members_that_a_budget_is_too_small_for_are_not_tried(arrays):
    full = network()
    dense = 2 * sum(p.numel() for p in full.parameters() if p.ndim == 2)
    least = least_flops(dict(full.named_parameters()), layout_of(full)) / dense
    learned = sparsemble.learn(network, arrays, budget=Budget(flops=1.5 * least))
    assert {candidate.members for candidate in learned.candidates} == {1}


def test_data_too_few_to_set_some_aside_are_refused():
    inputs, targets = torch.zeros(1, 4), torch.zeros(1, dtype=torch.long)
    with pytest.raises(InputError, match="none is left for validation"):
        sparsemble.learn(network, (inputs, targets), budget=Budget(flops=1.0))


def test_so_many_epochs_can_be_asked_for(arrays, monkeypatch):
    monkeypatch.undo()  # neither trials nor chain are longer than that
    recipe = sparsemble.plan(network, arrays, Budget(flops=1.0), epochs=3)
    assert recipe.chain.epochs == 3
    assert recipe.chain.steps_to_collect(1) == (3,)
    with pytest.raises(InputError, match="epochs = 0: give a whole number"):
        sparsemble.plan(network, arrays, Budget(flops=1.0), epochs=0)
    with pytest.raises(InputError, match="how long it takes"):
        sparsemble.learn(network, arrays, recipe, epochs=3)


def test_a_network_that_only_one_chain_can_begin_with_is_learned_by_one(arrays):
    recipe = sparsemble.plan(Shifted(), arrays, Budget(flops=1.0))
    assert recipe.chain.chains == 1
    assert sparsemble.plan(Shifted, arrays, Budget(flops=1.0)).chain.chains == 2


@pytest.mark.parametrize("length", [1, 2, 19, 20, 21, 30, 39, 40, 199])
def test_a_chain_is_never_longer_than_it_may_be(length):
    windows, window = planning._windows(length)
    assert 0 <= length - windows * window < window


def test_a_run_for_a_budget_goes_on_only_for_what_it_was_begun_with(arrays, tmp_path, monkeypatch):
    monkeypatch.undo()  # chains are as long as is asked for
    asked = {"budget": Budget(flops=1.0), "epochs": 2, "baseline": 0}
    sparsemble.learn(network, arrays, **asked, folder=tmp_path)
    assert sparsemble.learn(network, arrays, **asked, folder=tmp_path).ensemble
    others = [
        ({"budget": Budget(flops=0.5)}, "with flops = 1.0, not with flops = 0.5"),
        ({"budget": Budget(flops=1.0, parameters=0.5)}, "without parameters, not with parameters"),
        ({"seed": 3}, "with seed = 0, not with seed = 3"),
        ({"epochs": 4}, "with epochs = 2, not with epochs = 4"),
        ({"augment": InputDropout(share=0.5)}, "without augment, not with augment = "),
    ]
    for changed, said in others:
        with pytest.raises(InputError, match=f"holds a run {said}"):
            sparsemble.learn(network, arrays, **(asked | changed), folder=tmp_path)
