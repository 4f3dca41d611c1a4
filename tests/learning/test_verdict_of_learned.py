"""The verdict on what was learned by a call from Python."""

from __future__ import annotations

from importlib import import_module

import pytest

import sparsemble
from small_runs import network, recipe
from sparsemble.errors import InputError
from sparsemble.samplers import Constant


def fresh():
    """A network whose weights the seed of the run decides."""
    return sparsemble.feedforward(8, [24], 3)


def test_a_dense_network_is_trained_beside_and_judged(arrays, tmp_path):
    learned = sparsemble.learn(fresh, arrays, recipe(), baseline=2, folder=tmp_path)
    assert learned.dense is not None
    assert len(learned.dense.ensemble) == 2
    verdict = learned.verdict(arrays)
    first = learned.dense.ensemble[:1].evaluate(arrays)["nll"]
    assert verdict.differences["nll"].other == pytest.approx(first)
    assert verdict.members == len(learned.ensemble)
    own, beside = (sum(each.seconds.values()) for each in (learned, learned.dense))
    assert verdict.training == pytest.approx(own / (beside / 2))
    again = sparsemble.learn(fresh, arrays, recipe(), baseline=2, folder=tmp_path)
    assert again.dense.ensemble.evaluate(arrays) == learned.dense.ensemble.evaluate(arrays)


def test_without_one_there_is_no_verdict(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    assert learned.dense is None
    with pytest.raises(InputError, match="no dense network was trained beside"):
        learned.verdict(arrays)


def test_a_dense_network_that_diverges_does_not_lose_the_ensemble(arrays, monkeypatch):
    def diverging(recipe, networks):
        chain = recipe.chain.model_copy(update={"schedule": Constant(lr=1e9)})
        return recipe.model_copy(update={"chain": chain})

    monkeypatch.setattr(import_module("sparsemble.learning.learn"), "dense_recipe", diverging)
    learned = sparsemble.learn(fresh, arrays, recipe(), baseline=1)
    assert learned.dense is None
    assert len(learned.ensemble) > 0


@pytest.mark.parametrize("asked", [-1, "2", 1.5])
def test_a_number_of_dense_networks_that_is_none_is_refused_at_once(arrays, asked):
    with pytest.raises(InputError, match="give a number of dense networks"):
        sparsemble.learn(fresh, arrays, recipe(), baseline=asked)
