"""What a run is compared with."""

from __future__ import annotations

import pytest

from sparsemble.errors import InputError
from sparsemble.recipes import load_recipe
from sparsemble.recipes.baselines import baseline_of, small_recipe
from sparsemble.recipes.networks import CustomNetwork, FeedForwardSettings, LSTMSettings


def baseline(name: str = "digits", **changes):
    return baseline_of(load_recipe(name, changes))


def test_by_default_it_is_one_dense_network_with_the_same_data_and_passes():
    recipe = load_recipe("mnist-budget")
    dense = baseline_of(recipe)
    assert (dense.data, dense.network, dense.seed) == (recipe.data, recipe.network, recipe.seed)
    assert (dense.prune, dense.retrain, dense.chain.chains) == (None, None, 1)
    assert dense.chain.epochs == recipe.chain.epochs
    assert dense.chain.augment == recipe.chain.augment
    assert dense.chain.sampler.temperature == 0


def test_without_validation_data_the_rate_falls_once_and_the_last_network_is_taken():
    dense = baseline("digits")
    assert not dense.choose
    assert dense.chain.steps_to_collect(steps_per_epoch=1) == (dense.chain.epochs,)
    assert dense.chain.schedule(dense.chain.epochs - 1e-9) < 0.03 * dense.chain.schedule(0)


def test_it_can_be_asked_for():
    assert baseline(baseline="none") is None
    assert baseline(baseline="3").chain.chains == baseline(baseline=3).chain.chains == 3
    assert baseline(baseline="small") == baseline()
    assert baseline(baseline="digits-sgd-ensemble").name == "digits-sgd-ensemble"


def test_dense_networks_are_compared_with_nothing_unless_asked():
    assert baseline("mnist-sgd") is None
    assert baseline("mnist-sgd", baseline="2").chain.chains == 2


@pytest.mark.parametrize("asked", ["0", "-1", "nonsense", "1.5"])
def test_anything_else_is_refused(asked):
    with pytest.raises(InputError, match=f"baseline = '{asked}' is neither none, small, a number"):
        baseline(baseline=asked)


def test_another_baseline_is_no_other_run():
    one, other = (load_recipe("digits", {"baseline": asked}) for asked in ("none", "3"))
    assert one.is_same_run(other)
    assert not one.is_same_run(load_recipe("digits", {"seed": 4}))


def test_small_networks_have_a_share_of_the_units():
    assert FeedForwardSettings(hidden=(300, 100)).narrowed(0.25).hidden == (75, 25)
    narrow = LSTMSettings(hidden=(20, 4), embedding=10).narrowed(0.1)
    assert (narrow.hidden, narrow.embedding) == ((2, 1), 1)
    small = small_recipe(load_recipe("digits"), FeedForwardSettings(hidden=(9,)), 4)
    assert (small.name, small.network.hidden, small.chain.chains) == ("small", (9,), 4)
    with pytest.raises(InputError, match="give another baseline"):
        CustomNetwork(factory="a:b").narrowed(0.5)


def test_the_dense_network_is_trained_by_the_sampler_without_its_noise_at_its_highest_rate():
    dense = baseline(**{"chain.sampler.kind": "psgld", "chain.sampler.temperature": 0.1})
    assert (dense.chain.sampler.kind, dense.chain.sampler.temperature) == ("psgld", 0)
    warm = load_recipe("digits").chain.model_copy(update={"schedule": lambda epoch: epoch / 100})
    recipe = load_recipe("digits").model_copy(update={"chain": warm})
    assert baseline_of(recipe).chain.schedule(0) == pytest.approx(0.6)


def test_small_networks_of_a_kind_that_has_none_are_refused_at_once():
    recipe = load_recipe("digits", {"baseline": "small"})
    own = recipe.model_copy(update={"network": CustomNetwork(factory="a:b")})
    with pytest.raises(InputError, match="give another baseline"):
        baseline_of(own)
