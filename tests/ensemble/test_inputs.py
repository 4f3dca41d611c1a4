"""What an ensemble is asked about: arrays, tables and data sets in whatever form they come."""

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import sparsemble
from small_runs import network, recipe
from sparsemble.data import Scaling
from sparsemble.errors import InputError


@pytest.fixture(scope="module")
def ensemble(arrays):
    return sparsemble.learn(network(), arrays, recipe(retrain=None)).ensemble


@pytest.fixture(scope="module")
def table(arrays):
    """The arrays' inputs with names."""
    return pd.DataFrame(arrays[0], columns=[f"f{k}" for k in range(8)])


@pytest.fixture(scope="module")
def named(table, arrays):
    """An ensemble learned from a table."""
    return sparsemble.learn(network(), (table, arrays[1]), recipe(retrain=None)).ensemble


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((4, 7), np.float32), "reads 8 features per row"),
        (np.zeros(8, np.float32), "one row per example"),
        (np.full((2, 8), np.nan), "NaN or infinity"),
        (np.zeros((2, 8), complex), "complex"),
        (torch.zeros(2, 8, dtype=torch.complex64), "complex"),
        ([["a"] * 8], "are not numbers"),
        ([[1.0] * 8, [1.0]], "rows of different lengths"),
        (None, "are not numbers"),
    ],
)
def test_what_cannot_be_predicted_is_refused(ensemble, inputs, message):
    with pytest.raises(InputError, match=message):
        ensemble.predict_proba(inputs)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype(np.float64),
        lambda x: x.astype(np.longdouble),
        lambda x: x.tolist(),
        lambda x: torch.from_numpy(x).double(),
        lambda x: torch.from_numpy(x).requires_grad_(),
        lambda x: x[::-1][::-1],
        lambda x: np.asfortranarray(x),
        lambda x: x.astype(">f4"),
        lambda x: x.reshape(-1, 2, 4),
    ],
)
def test_the_same_numbers_in_any_form_predict_the_same(ensemble, arrays, change):
    expected = ensemble.predict_proba(arrays[0])
    assert np.array_equal(ensemble.predict_proba(change(arrays[0])), expected)


def test_no_rows_give_no_predictions(ensemble):
    assert ensemble.predict_proba(np.zeros((0, 8), np.float32)).shape == (0, 3)


def test_probabilities_of_half_precision_are_numbers_for_numpy(arrays):
    learned = sparsemble.learn(network().bfloat16(), arrays, recipe())
    assert learned.ensemble.predict_proba(arrays[0]).dtype == np.float32


def test_named_features_are_put_into_the_order_learned(arrays):
    names = [f"f{k}" for k in range(8)]
    data = sparsemble.as_dataset(*arrays, feature_names=names)
    ensemble = sparsemble.learn(network(), data, recipe(retrain=None)).ensemble
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    shuffled = ensemble.predict_proba(arrays[0][:, order], [names[k] for k in order])
    assert np.array_equal(shuffled, ensemble.predict_proba(arrays[0]))
    with pytest.raises(InputError, match="feature 'f7' is missing"):
        ensemble.predict_proba(arrays[0][:, :7], names[:7])


def test_a_table_s_columns_are_put_into_the_order_learned(named, table, arrays):
    assert named.task.feature_names == tuple(table.columns)
    shuffled = table[table.columns[[3, 1, 0, 2, 7, 6, 5, 4]]]
    assert np.array_equal(named.predict_proba(shuffled), named.predict_proba(arrays[0]))
    assert np.array_equal(named.predict(shuffled), named.predict(arrays[0]))
    assert np.array_equal(
        named.uncertainty(shuffled).epistemic,
        named.uncertainty(arrays[0]).epistemic,
    )
    assert named.evaluate((shuffled, arrays[1])) == named.evaluate(arrays)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda t: t.drop(columns="f6"), "feature 'f6' is missing"),
        (lambda t: t.assign(other=0.0), "feature 'other' is unknown"),
        (lambda t: t.rename(columns={"f2": "f1"}), "'f1' twice"),
        (lambda t: pd.DataFrame(t.to_numpy()), "feature 'f0' is missing"),
    ],
)
def test_a_table_with_other_columns_is_refused(named, table, arrays, changed, message):
    for use in (named.predict, named.predict_proba, named.uncertainty):
        with pytest.raises(InputError, match=message):
            use(changed(table))
    with pytest.raises(InputError, match=message):
        named.evaluate((changed(table), arrays[1]))


def test_without_names_learned_a_table_s_columns_are_taken_in_order(ensemble, table, arrays):
    assert ensemble.task.feature_names is None
    assert np.array_equal(ensemble.predict_proba(table), ensemble.predict_proba(arrays[0]))
    assert ensemble.evaluate((table, arrays[1])) == ensemble.evaluate(arrays)


def test_features_and_classes_are_matched_by_name(arrays):
    names, classes = [f"f{k}" for k in range(8)], ("none", "one", "two")
    data = sparsemble.as_dataset(*arrays, feature_names=names, class_names=classes)
    ensemble = sparsemble.learn(network(), data, recipe(retrain=None)).ensemble
    wanted = ensemble.evaluate(data)
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    other = sparsemble.as_dataset(
        arrays[0][:, order],
        2 - arrays[1],
        feature_names=[names[k] for k in order],
        class_names=classes[::-1],
    )
    assert ensemble.evaluate(other) == wanted
    indices = sparsemble.as_dataset(*arrays)
    assert ensemble.evaluate(indices) == wanted
    foreign = sparsemble.as_dataset(*arrays, class_names=("none", "one", "many"))
    with pytest.raises(InputError, match="a class 'many'"):
        ensemble.evaluate(foreign)
    with pytest.raises(InputError, match="reads 8 features"):
        ensemble.evaluate(sparsemble.as_dataset(arrays[0][:, :5], arrays[1]))


def test_names_that_look_like_indices_are_names(arrays):
    data = sparsemble.as_dataset(*arrays, class_names=("2", "1", "0"))
    ensemble = sparsemble.learn(network(), data, recipe(retrain=None)).ensemble
    renamed = sparsemble.as_dataset(arrays[0], 2 - arrays[1], class_names=("0", "1", "2"))
    assert ensemble.evaluate(renamed) == ensemble.evaluate(data)


def test_scaling_travels_with_the_ensemble(arrays, tmp_path):
    raw = (arrays[0] * 50 + 7, arrays[1])
    data = sparsemble.as_dataset(*raw, scaling=Scaling.standard(torch.from_numpy(raw[0])))
    ensemble = sparsemble.learn(network(), data, recipe()).ensemble
    assert ensemble.evaluate(data)["error"] < 0.25
    ensemble.save(tmp_path)
    loaded = sparsemble.Ensemble.load(tmp_path)
    assert np.array_equal(loaded.predict(raw[0]), ensemble.predict(raw[0]))
    assert (loaded.predict(raw[0]) == raw[1]).mean() > 0.75


def test_an_ensemble_follows_its_weights_and_its_dtype(ensemble, arrays):
    inputs = torch.from_numpy(arrays[0])
    before = ensemble(inputs)
    double = deepcopy(ensemble).double()
    assert double(inputs).dtype == torch.float64
    assert torch.allclose(double(inputs).float(), before, atol=1e-5)
    other = deepcopy(ensemble)
    other(inputs)
    weights = {name: p * 0 for name, p in ensemble.named_parameters()}
    other.load_state_dict(ensemble.state_dict() | weights)
    assert torch.allclose(other(inputs), torch.full((300, 3), 1 / 3))


def test_an_ensemble_can_be_sent_to_another_process(ensemble, arrays):
    copy = pickle.loads(pickle.dumps(ensemble))
    assert np.array_equal(copy.predict_proba(arrays[0]), ensemble.predict_proba(arrays[0]))


def test_costs_of_an_ensemble_made_by_hand_are_relative_to_the_dense_network(arrays):
    chosen = recipe(retrain=None)
    ensemble = sparsemble.learn(network(), arrays, chosen).ensemble
    by_hand = sparsemble.Ensemble(list(ensemble), ensemble.task)
    assert by_hand.cost.dense_parameters == 8 * 24 + 24 * 3
    assert by_hand.cost == ensemble.cost


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(20, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.embedding(x).mean(1))


@pytest.mark.parametrize("wrong", [99, -3])
def test_numbers_that_stand_for_no_token_are_refused(wrong, tmp_path, command):
    rng = np.random.default_rng(0)
    words, targets = rng.integers(0, 20, (100, 4)), rng.integers(0, 3, 100)
    tokens = sparsemble.learn(Tokens(), (words, targets), recipe(retrain=None)).ensemble
    words[5, 1] = wrong
    message = "the network cannot take such inputs: index out of range"
    with pytest.raises(InputError, match=message):
        tokens.predict(words)
    with pytest.raises(InputError, match=message):
        tokens.evaluate((words, targets))
    tokens.save(tmp_path / "tokens")
    np.save(tmp_path / "words.npy", words)
    code, _, told = command("predict", tmp_path / "tokens", tmp_path / "words.npy")
    assert code == 2
    assert message in told


def test_an_ensemble_is_called_with_tensors(ensemble, arrays):
    with pytest.raises(InputError, match="predict_proba and evidence take arrays"):
        ensemble(arrays[0])


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4 * 2, 3)

    def forward(self, x):
        x = torch.relu(self.first(x.view(-1, 1, 4, 2)))
        return self.last(nn.functional.max_pool2d(x, 2).flatten(1))


def test_of_no_examples_there_are_no_predictions(arrays):
    pictures = sparsemble.learn(Pictures(), arrays, recipe(retrain=None)).ensemble
    none = np.zeros((0, 8), np.float32)
    assert pictures.predict_proba(none).shape == (0, 3)
    assert pictures.predict(none).shape == (0,)
    assert pictures.evidence(none).shape == (3, 0, 3)
