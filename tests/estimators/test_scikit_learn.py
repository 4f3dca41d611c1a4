"""Estimators as scikit-learn's users use them; its own checks are the specification."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import sparsemble
from sparsemble import Budget, Recipe
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.priors import GroupSparse
from sparsemble.samplers import Constant, SGLDSettings
from sparsemble.sklearn import SparseEnsembleClassifier, SparseEnsembleRegressor
from sparsemble.stages import ChainSettings, PruneSettings, RetrainSettings
from sparsemble.store import read_json, write_json

pytestmark = pytest.mark.slow

QUICK = Recipe(
    prior=GroupSparse(penalty=1e-4),
    chain=ChainSettings(
        sampler=SGLDSettings(temperature=1e-4),
        schedule=Constant(lr=0.2),
        batch_size=32,
        epochs=8,
        burn_in=2,
        interval=3,
        clip=5.0,
    ),
    prune=PruneSettings(flops=1.0),
    retrain=RetrainSettings(schedule=Constant(lr=0.05), epochs=2, batch_size=32),
    choose=True,
)
"""Settings that need no trials."""

CLASSIFIER = SparseEnsembleClassifier((16,), recipe=QUICK, random_state=0)
REGRESSOR = SparseEnsembleRegressor((16,), recipe=QUICK, random_state=0)


@parametrize_with_checks([CLASSIFIER])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.thorough  # which has most of its code in common with the classifier
@parametrize_with_checks([REGRESSOR])
def test_its_checks_of_regressors_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def flowers():
    return load_iris(return_X_y=True)


def test_it_goes_into_pipelines_searches_and_calibration(flowers):
    pipeline = make_pipeline(StandardScaler(), clone(CLASSIFIER)).set_output(transform="pandas")
    assert cross_val_score(pipeline, *flowers, cv=3).mean() > 0.8
    grid = {"sparseensembleclassifier__hidden_sizes": [(4,), (24, 12)]}
    search = GridSearchCV(pipeline, grid, scoring="neg_log_loss", cv=2).fit(*flowers)
    best = search.best_estimator_[-1].ensemble_
    assert best.cost.flops_ratio <= 1
    calibrated = CalibratedClassifierCV(clone(CLASSIFIER), cv=2).fit(*flowers)
    assert calibrated.score(*flowers) > 0.8
    gone = permutation_importance(search.best_estimator_, *flowers, n_repeats=2, random_state=0)
    assert gone.importances_mean[2:].max() > gone.importances_mean[:2].max()  # petals tell


def test_settings_find_themselves_and_can_be_used_again(flowers):
    found = SparseEnsembleClassifier((8,), epochs=4, budget=Budget(flops=0.8), random_state=1)
    found.fit(*flowers)
    assert found.ensemble_.cost.flops_ratio <= 0.8
    assert found.recipe_.chain.epochs == 4
    again = SparseEnsembleClassifier((8,), recipe=found.recipe_, random_state=1).fit(*flowers)
    assert np.array_equal(again.predict_proba(flowers[0]), found.predict_proba(flowers[0]))


def test_the_order_of_rows_does_not_matter(flowers):
    rows, species = flowers
    order = np.random.default_rng(0).permutation(len(rows))
    one = clone(CLASSIFIER).fit(rows, species)
    other = clone(CLASSIFIER).fit(rows[order], species[order])
    assert np.array_equal(one.predict_proba(rows), other.predict_proba(rows))


def test_classes_keep_their_names_and_weights_count(flowers):
    rows, species = flowers
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)[species]
    plain = clone(CLASSIFIER).fit(rows, names)
    assert set(plain.predict(rows)) == {"setosa", "versicolor", "virginica"}
    assert plain.ensemble_.task.class_names == ("setosa", "versicolor", "virginica")
    heavy = clone(CLASSIFIER).set_params(class_weight={"virginica": 30.0}).fit(rows, names)
    weighed = clone(CLASSIFIER).fit(rows, names, np.where(names == "virginica", 30.0, 1.0))
    assert np.array_equal(heavy.predict_proba(rows), weighed.predict_proba(rows))
    assert (heavy.predict(rows) == "virginica").sum() > (plain.predict(rows) == "virginica").sum()


def test_a_network_of_ones_own_may_be_learned(flowers):
    def network(inputs, outputs):
        return nn.Sequential(nn.Linear(inputs, 12), nn.Tanh(), nn.Linear(12, outputs))

    found = clone(CLASSIFIER).set_params(network=network).fit(*flowers)
    assert found.score(*flowers) > 0.8
    with pytest.raises(InputError, match="a network is needed, not str"):
        clone(CLASSIFIER).set_params(network=lambda inputs, outputs: "none").fit(*flowers)


def test_numbers_come_with_how_sure_they_are():
    rows, progress = load_diabetes(return_X_y=True)
    found = clone(REGRESSOR).fit(rows, progress)
    mean, deviation = found.predict(rows, return_std=True)
    assert mean.shape == deviation.shape == progress.shape
    within = np.abs(progress - mean) < 1.645 * deviation
    assert 0.8 < within.mean() < 1
    both = clone(REGRESSOR).fit(rows, np.stack([progress, -progress], 1))
    assert both.predict(rows).shape == (len(rows), 2)


@pytest.mark.parametrize("kind", [CLASSIFIER, REGRESSOR], ids=["classes", "numbers"])
def test_what_was_saved_predicts_the_same_and_can_be_learned_on(kind, flowers, tmp_path):
    rows = pd.DataFrame(flowers[0], columns=["a", "b", "c", "d"])
    targets = flowers[1] + (10 if kind is CLASSIFIER else np.linspace(0, 1, len(rows)))
    found = clone(kind).fit(rows, targets)
    found.save(tmp_path / "saved")
    loaded = type(kind).load(tmp_path / "saved", **kind.get_params())
    assert np.array_equal(loaded.predict(rows), found.predict(rows))
    assert loaded.predict(rows).dtype == found.predict(rows).dtype
    assert list(loaded.feature_names_in_) == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(rows[["b", "a", "c", "d"]])
    further = loaded.set_params(warm_start=True).fit(rows, targets)
    if kind is CLASSIFIER:
        losses = [log_loss(targets, own.predict_proba(rows)) for own in (found, further)]
        assert losses[1] < losses[0]  # it has learned for twice as long
    else:
        assert further.score(rows, targets) > 0.9


def test_any_saved_ensemble_is_an_estimator(flowers, tmp_path):
    train, test = sparsemble.digits()
    quick = {"chain.epochs": 4, "chain.burn_in": 2, "chain.interval": 2, "retrain.epochs": 1}
    recipe = sparsemble.load_recipe("digits", quick | {"chain.chains": 1})
    learned = sparsemble.learn(sparsemble.feedforward(64, [16], 10), train, recipe)
    learned.ensemble.save(tmp_path)
    loaded = SparseEnsembleClassifier.load(tmp_path)
    inputs = test.inputs.numpy()
    assert loaded.predict(inputs).tolist() == learned.ensemble.predict(inputs).tolist()
    assert loaded.score(inputs, test.targets.numpy()) > 0.5
    with pytest.raises(InputError, match="holds classifiers, not regressors"):
        SparseEnsembleRegressor.load(tmp_path)


def test_one_class_is_refused(flowers):
    with pytest.raises(ValueError, match="one class only"):
        clone(CLASSIFIER).fit(flowers[0], np.zeros(len(flowers[0]), int))


def test_rows_that_are_the_same_are_as_many_as_there_are():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (2000, 3)).astype(float)
    rates = np.where(rows[:, 0] > 0, 0.7, 0.2)
    happened = (rng.random(2000) < rates).astype(int)
    found = clone(CLASSIFIER).fit(rows, happened)
    predicted = found.predict_proba(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))[:, 1]
    assert predicted == pytest.approx([0.2, 0.7], abs=0.08)


def test_a_constant_column_however_large_does_no_harm(flowers):
    rows, species = flowers
    beside = np.concatenate([rows, np.full((len(rows), 1), 1e6)], 1)
    assert clone(CLASSIFIER).fit(beside, species).score(beside, species) > 0.8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recipe": "digits"}, "recipe = 'digits': load_recipe"),
        ({"recipe": sparsemble.load_recipe("diabetes")}, "is for regressors, not classifiers"),
        ({"hidden_sizes": 64, "recipe": QUICK}, "hidden = 64: give the size of every hidden layer"),
    ],
)
def test_settings_of_something_else_are_refused(flowers, settings, message):
    with pytest.raises(InputError, match=message):
        SparseEnsembleClassifier(**settings).fit(*flowers)


def test_a_recipe_and_the_estimator_must_not_contradict_each_other():
    recipe = sparsemble.load_recipe("diabetes")
    with pytest.raises(
        InputError, match=r"says task\.noise = 'predicted', the estimator 'learned'"
    ):
        SparseEnsembleRegressor(recipe=recipe).fit(*load_diabetes(return_X_y=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "nonsense"}, "dtype"),
        ({"n_features_in": "many"}, "n_features_in"),
        ({"classes": 5}, "classes"),
        ({"classes": ["a", "a", "b"]}, "not different classes"),
        ({"dtype": "<i1"}, "not different classes of <i1"),
        ({"classes": ["a", "b"]}, "2 classes of 3 outputs"),
    ],
)
def test_what_a_file_says_of_an_estimator_is_checked(saved, changes, message):
    file = saved / "estimator.json"
    content = read_json(file)
    write_json(file, content | changes)
    try:
        with pytest.raises((CorruptFileError, InputError), match=message):
            SparseEnsembleClassifier.load(saved)
    finally:
        write_json(file, content)


@pytest.fixture(scope="module")
def saved(flowers, tmp_path_factory):
    rows, species = flowers
    folder = tmp_path_factory.mktemp("saved") / "flowers"
    clone(CLASSIFIER).fit(rows, np.array(["a", "b", "c"])[species]).save(folder)
    return folder


def test_how_long_names_are_follows_from_them(saved):
    file = saved / "estimator.json"
    content = read_json(file)
    write_json(file, content | {"dtype": "<U2000000000"})
    try:
        assert SparseEnsembleClassifier.load(saved).classes_.dtype == np.dtype("<U1")
    finally:
        write_json(file, content)
