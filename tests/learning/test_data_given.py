"""Data to learn from: what is taken in which form, and what is refused before anything is done."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import sparsemble
from small_runs import KillAt, Killed, network, predictions, recipe
from sparsemble.errors import InputError

pytestmark = pytest.mark.slow


class Rows(Dataset):
    """A torch data set of one's own, that makes every example when it is asked for."""

    def __init__(self, arrays) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[1])

    def __getitem__(self, index):
        return self.arrays[0][index], int(self.arrays[1][index])


def tensors(arrays) -> TensorDataset:
    return TensorDataset(*map(torch.as_tensor, arrays))


def test_tensors_in_a_data_set_are_the_arrays_themselves(arrays):
    given = sparsemble.learn(network(), tensors(arrays), recipe(), validation=tensors(arrays))
    wanted = sparsemble.learn(network(), arrays, recipe(), validation=arrays)
    assert np.array_equal(predictions(given, arrays), predictions(wanted, arrays))
    assert given.history.samples == wanted.history.samples


@pytest.mark.parametrize(
    "given",
    [
        Rows,
        lambda arrays: DataLoader(tensors(arrays), batch_size=25, shuffle=True),
        lambda arrays: DataLoader(Rows(arrays), batch_size=25, shuffle=True),
    ],
)
def test_data_sets_and_loaders_serve_as_well(arrays, given):
    short = recipe(
        chain=recipe().chain.model_copy(update={"epochs": 10, "burn_in": 4, "interval": 2}),
        retrain=recipe().retrain.model_copy(update={"epochs": 5}),
    )
    learned = sparsemble.learn(network(), given(arrays), short, validation=given(arrays))
    known = learned.ensemble.evaluate(sparsemble.as_dataset(*arrays))
    assert known["error"] < 0.35  # the largest class leaves 0.52
    assert learned.ensemble.evaluate(given(arrays))["error"] == pytest.approx(known["error"])
    last = learned.history.samples[-1]
    assert (last.on, last.members) == ("validation examples", 3)
    assert last.together == pytest.approx(known["error"])
    assert "diversity" in {finding.question for finding in learned.findings}


@pytest.mark.parametrize("given", [Rows, lambda arrays: DataLoader(Rows(arrays), 25, shuffle=True)])
def test_a_run_on_a_data_set_or_loader_resumes_to_the_same_bits(arrays, given, tmp_path):
    dense = recipe(
        chain=recipe().chain.model_copy(update={"epochs": 4, "burn_in": 2, "interval": 1}),
        prune=None,
        retrain=None,
    )
    whole = sparsemble.learn(network(), given(arrays), dense)
    with pytest.raises(Killed):
        sparsemble.learn(
            network(), given(arrays), dense, folder=tmp_path, callback=KillAt("chain", 41)
        )
    resumed = sparsemble.learn(network(), given(arrays), dense, folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))


class Endless(IterableDataset):
    """Does not know how many examples it has."""

    def __iter__(self):
        return iter([(torch.zeros(8), 0)])


def test_validation_data_know_their_length(arrays):
    with pytest.raises(InputError, match="validation examples: the data loader's dataset has no"):
        sparsemble.learn(network(), arrays, recipe(), validation=DataLoader(Endless()))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (lambda x, y: (x, y + 5), "outside the 3 classes 0 to 2"),
        (lambda x, y: (x * np.nan, y), "NaN or infinity"),
        (lambda x, y: (x[:5], y), "the ensemble reads 8 features per row"),
    ],
)
def test_what_is_wrong_in_a_validation_loader_is_told(arrays, batch, message):
    given = [batch(x, int(y)) for x, y in zip(*arrays, strict=True)]
    with pytest.raises(InputError, match="validation examples") as told:
        sparsemble.learn(network(), arrays, recipe(), validation=DataLoader(given, batch_size=50))
    assert message in str(told.value)


def test_a_loader_is_read_once_an_epoch_however_many_samples_are_taken(arrays):
    class Counted(TensorDataset):
        fetched = 0

        def __getitem__(self, index):
            Counted.fetched += 1
            return super().__getitem__(index)

    loader = DataLoader(Counted(*map(torch.as_tensor, arrays)), batch_size=10)
    chain = recipe().chain.model_copy(
        update={"collection": "backward", "samples": 20, "epochs": 1, "burn_in": 0, "interval": 1}
    )
    learned = sparsemble.learn(network(), loader, recipe(chain=chain, prune=None, retrain=None))
    assert len(learned.ensemble) == 20
    assert Counted.fetched < 2 * len(arrays[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (np.where(x > 2, np.nan, x), y), "hold NaN or infinity"),
        (lambda x, y: (x, y + 1), "the labels go up to 3, so there are 4 classes"),
        (lambda x, y: (x[:, :5], y), "the data has 5 features, the network.s first layer"),
        (lambda x, y: (x[:0], y[:0]), "no examples"),
    ],
)
def test_bad_data_is_refused_before_anything_is_written(arrays, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network(), change(*arrays), recipe(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Choosy(nn.Sequential):
    """Takes rows of any length, and reads only what it knows."""

    def forward(self, inputs):
        return super().forward(inputs[:, :8])


def test_a_network_that_takes_any_width_is_held_to_its_layout(arrays):
    wide = (np.hstack([arrays[0], arrays[0]]), arrays[1])
    layout = sparsemble.layout_of(network())
    with pytest.raises(InputError, match="the data has 16 features, the network's first layer 8"):
        sparsemble.learn(Choosy(*network()), wide, recipe(), layout=layout)


def test_the_wrong_number_of_classes_is_refused(arrays):
    data = replace(sparsemble.as_dataset(*arrays), class_names=("a", "b", "c", "d"))
    with pytest.raises(InputError, match="the data has 4 classes, the network's last layer 3"):
        sparsemble.learn(network(), data, recipe())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((4, 8)), "give a pair"),
        ((np.zeros((4, 8)), np.zeros(4), 3), "give a pair"),
        ("text", "give a pair"),
    ],
)
def test_data_of_the_wrong_kind_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network(), data, recipe())


@pytest.mark.parametrize(
    ("inputs", "label", "message"),
    [(0.0, 7, "label 7 of example 0 is outside the 3 classes"), (math.nan, 0, "NaN or infinity")],
)
def test_a_data_set_made_by_hand_is_checked(inputs, label, message):
    data = sparsemble.Dataset(
        torch.full((10, 8), inputs), torch.full((10,), label), ("none", "one", "two")
    )
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network(), data, recipe())
