"""Regression on the embedded diabetes data: the recipes, and the example that compares."""

import re

import numpy as np
import pytest

from examples import diabetes as example
from sparsemble import Ensemble
from sparsemble.data import diabetes
from sparsemble.recipes import load_recipe
from sparsemble.recipes.baselines import baseline_of
from sparsemble.results.running import run_recipe


def test_the_recipe_is_compared_with_five_dense_networks_of_its_shape():
    ours = load_recipe("diabetes")
    dense = baseline_of(ours)
    assert dense.network.hidden == ours.network.hidden
    assert (dense.chain.chains, dense.chain.sampler.temperature, dense.prune) == (5, 0, None)


def test_normal_laws_are_scored_as_the_task_does(tmp_path):
    quick = {"chain.chains": 1, "chain.epochs": 2, "chain.interval": 2, "task.noise": "learned"}
    run_recipe(load_recipe("diabetes-sgd-ensemble", quick), tmp_path)
    ensemble, (_, test) = Ensemble.load(tmp_path), diabetes()
    means, variances = ensemble.evidence(test.inputs)[0].T.numpy()
    targets = test.targets.squeeze(1).numpy()
    found = example.normal_scores(means, float(np.sqrt(variances[0])), targets)
    score = ensemble.evaluate(test)
    assert found == pytest.approx([score[key] for key in ("rmse", "nll", "crps")], rel=1e-5)


@pytest.mark.thorough
def test_the_example_prints_every_method(short_recipes, monkeypatch, capsys):
    monkeypatch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
    monkeypatch.setattr(example, "FOLDS", 2)
    example.main()
    lines = capsys.readouterr().out
    for method in ("Ridge", "MLPRegressor", "One dense", "Five dense", "Sparse ensemble"):
        assert re.search(rf"{method}.* ± .* ± .* ± ", lines)
