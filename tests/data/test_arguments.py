"""Several inputs of every example: taken as one value, checked where they enter."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from sparsemble.data import Arguments, ArrayBatches, LoaderBatches, Scaling, as_dataset
from sparsemble.errors import InputError

NUMBERS = torch.arange(12.0).view(6, 2)
TOKENS = torch.arange(18).view(6, 3) % 5
MASK = TOKENS == 0
LABELS = torch.tensor([0, 1, 0, 1, 0, 1])


def test_named_tensors_stand_in_the_order_of_their_names():
    one = Arguments(named={"tokens": TOKENS, "mask": MASK})
    other = Arguments(named={"mask": MASK, "tokens": TOKENS})
    assert one.names == other.names == ("mask", "tokens")


def test_only_floating_tensors_change_their_precision():
    changed = Arguments((NUMBERS, TOKENS, MASK)).to(torch.float64)
    kinds = [tensor.dtype for tensor in changed.tensors]
    assert kinds == [torch.float64, torch.int64, torch.bool]


def test_a_network_is_called_by_place_and_by_name():
    given = Arguments((NUMBERS,), {"mask": MASK})
    assert given.given_to(lambda x, *, mask: (x is NUMBERS, mask is MASK)) == (True, True)


def test_rows_are_picked_of_all_at_once():
    given = Arguments((NUMBERS, TOKENS))
    rows = torch.tensor([4, 1])
    assert torch.equal(given[rows].tensors[1], TOKENS[rows])
    assert [len(part) for part in given.split(4)] == [4, 2]


@pytest.mark.parametrize(
    "inputs",
    [
        (NUMBERS, TOKENS),
        [NUMBERS.numpy(), TOKENS.numpy()],
        {"x": NUMBERS.numpy(), "t": TOKENS},
        {"lengths": np.arange(6), "x": NUMBERS},
    ],
)
def test_a_tuple_or_dict_of_arrays_is_several_inputs(inputs):
    data = as_dataset(inputs, LABELS)
    assert isinstance(data.inputs, Arguments)
    assert len(data.inputs) == 6
    assert torch.float32 in [tensor.dtype for tensor in data.inputs.tensors]
    assert torch.int64 in [tensor.dtype for tensor in data.inputs.tensors]


@pytest.mark.parametrize("kind", [tuple, list])
def test_as_many_rows_as_labels_are_one_array(kind):
    data = as_dataset(kind(NUMBERS.numpy()), LABELS)
    assert torch.equal(data.inputs, NUMBERS)


def test_batches_hold_the_same_examples_of_every_input():
    pair = (torch.arange(6).view(6, 1), torch.arange(6))
    for inputs, targets in ArrayBatches(as_dataset(pair, np.arange(6)), 4, seed=0).epoch(0):
        assert torch.equal(inputs.tensors[0].squeeze(1), targets)
        assert torch.equal(inputs.tensors[1], targets)


def test_a_loader_gives_them_as_its_items_hold_them():
    items = [({"x": NUMBERS[k], "t": TOKENS[k]}, 0) for k in range(6)]
    loader = DataLoader(items, batch_size=4)
    batches = LoaderBatches(loader, 0, targets=lambda y, source: y, dtype=torch.float64)
    first, _ = next(batches.epoch(0))
    assert first.names == ("t", "x")
    assert [tensor.dtype for tensor in first.tensors] == [torch.int64, torch.float64]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_two_inputs_of_a_loader_are_two_for_every_size_of_a_batch(count):
    items = [((torch.tensor(k), torch.tensor(-k)), 0) for k in range(6)]
    batches = LoaderBatches(DataLoader(items, batch_size=count), 0, targets=lambda y, source: y)
    first, _ = next(batches.epoch(0))
    assert first.shape == ((count,), (count,))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "no inputs: give at least one array"),
        ({}, "no inputs: give at least one array"),
        ((NUMBERS, TOKENS[:4]), r"different lengths \(6 of 1, 4 of 2\): give one row of each"),
        ({"x": NUMBERS, "t": TOKENS[:4]}, r"different lengths \(4 of t, 6 of x\)"),
        ((NUMBERS[:4], TOKENS[:4]), "4 inputs but 6 labels"),
        ({"x": NUMBERS * np.inf}, "input 'x': 6 of 6 examples hold NaN or infinity"),
        ({"x": NUMBERS, "n": 3}, "input 'n': a single number"),
        ({0: NUMBERS}, "an input is called 0"),
        ({"x": NUMBERS, "words": np.array(["a"] * 6)}, "input 'words': values of type <U1"),
    ],
)
def test_what_is_wrong_with_them_is_told(inputs, message):
    with pytest.raises(InputError, match=message):
        as_dataset(inputs, LABELS)


@pytest.mark.parametrize("extra", [{"scaling": Scaling.by(0.5)}, {"feature_names": ["a", "b"]}])
def test_scaling_and_names_of_features_are_for_one_array(extra):
    with pytest.raises(InputError, match="for a single array of inputs"):
        as_dataset((NUMBERS, TOKENS), LABELS, **extra)
