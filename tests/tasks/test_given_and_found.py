"""What a task was given and what the data say: matched by name, or refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import sparsemble
from small_runs import recipe
from sparsemble import Classification, InputError, Regression


@pytest.fixture
def tables():
    """Features and two targets that differ by a large offset, as tables."""
    generator = np.random.default_rng(0)
    inputs = pd.DataFrame(generator.normal(size=(80, 3)), columns=list("abc"))
    noise = generator.normal(size=(80, 2))
    targets = pd.DataFrame({"u": inputs.a + noise[:, 0], "v": 500 - inputs.b + noise[:, 1]})
    return inputs, targets


def learned(data, outputs=1, **how):
    torch.manual_seed(0)
    network = sparsemble.feedforward(3, [4], outputs)
    return sparsemble.learn(network, data, recipe(), **how).ensemble


def test_columns_of_targets_are_matched_by_name(tables):
    inputs, targets = tables
    ensemble = learned(tables, 2, task=Regression())
    assert ensemble.task.target_names == ("u", "v")
    turned = ensemble.evaluate((inputs, targets[["v", "u"]]))
    assert turned["rmse"] == pytest.approx(ensemble.evaluate(tables)["rmse"])
    with pytest.raises(InputError, match="target 'v' is missing"):
        ensemble.evaluate((inputs, targets.rename(columns={"v": "w"})))


def test_targets_that_differ_in_single_precision_by_nothing_are_learned(tables):
    inputs, targets = tables
    shifted = learned((inputs, targets.u + 1e9), task=Regression())
    plain = learned((inputs, targets.u), task=Regression())
    moved = shifted.predict(inputs) - 1e9
    assert moved == pytest.approx(plain.predict(inputs), abs=1e-4)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Regression(target_names=("x", "y")), r"target_names = \('x', 'y'\), the data"),
        (Regression(num_targets=3), "the task has 3 targets, the data 2"),
        (Regression(feature_names=("x", "y", "z")), "the task has feature_names"),
        (Regression(input_shape=(4,)), r"input_shape = \(4,\), the data \(3,\)"),
    ],
)
def test_a_task_that_contradicts_the_data_is_refused(tables, task, message):
    with pytest.raises(InputError, match=message):
        learned(tables, 2, task=task)


def test_names_that_a_task_is_given_are_kept_for_plain_arrays(tables):
    inputs, targets = tables
    arrays = inputs.to_numpy(), (targets.u > 0).astype(int).to_numpy()
    ensemble = learned(arrays, 2, task=Classification(feature_names=list("abc")))
    turned = inputs[["c", "a", "b"]]
    assert (ensemble.predict(turned) == ensemble.predict(arrays[0])).all()


def test_a_number_of_classes_that_the_network_lacks_is_refused(tables):
    data = tables[0], (tables[1].u > 0).astype(int)
    with pytest.raises(InputError, match="7 classes, but the network's last layer has 2"):
        learned(data, 2, task=Classification(num_classes=7))


def test_numbers_are_no_classes_and_the_error_says_what_to_ask_for(tables):
    train, _ = sparsemble.diabetes()
    with pytest.raises(InputError, match=r"has numbers, not classes; .* task=Regression"):
        sparsemble.learn(sparsemble.feedforward(10, [4], 2), train, recipe(), task=Classification())


def test_a_network_for_the_other_kind_of_noise_is_told_so(tables):
    data = tables[0], tables[1].u
    with pytest.raises(InputError, match=r"1 target, 2 outputs .* Regression\(noise='predicted'\)"):
        learned(data, 2, task=Regression())


@pytest.mark.parametrize("task", [Regression, "regression"])
def test_a_task_is_given_as_a_value(tables, task):
    with pytest.raises(InputError, match="not its class or name"):
        learned(tables, 2, task=task)


@pytest.mark.parametrize(
    "empty",
    [(np.zeros((0, 3)), np.zeros(0)), TensorDataset(torch.zeros(0, 3), torch.zeros(0))],
    ids=["arrays", "data set"],
)
def test_no_examples_are_refused(tables, empty):
    ensemble = learned((tables[0], tables[1].u), task=Regression())
    with pytest.raises(InputError, match="no examples"):
        ensemble.evaluate(empty)
    with pytest.raises(InputError, match="no examples"):
        learned(empty, task=Regression())
