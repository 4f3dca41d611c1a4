"""Data: what enters is checked, and the order of batches is a function of seed and epoch."""

import gzip

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
)

from sparsemble.data import ArrayBatches, LoaderBatches, Scaling, as_dataset, digits, mnist
from sparsemble.data.diabetes import FEATURES, diabetes
from sparsemble.data.downloads import data_folder
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.tasks import Classification


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        ([[0.0], [np.nan], [1.0]], [0, 1, 0], "1 of 3 examples hold NaN .* example 1"),
        ([[0.0], [np.inf]], [0, 1], "NaN or infinity"),
        ([[0.0], [1.0]], [0, 3], "label 3 of example 1 is outside the 3 classes 0 to 2"),
        ([[0.0], [1.0]], [0, -1], "label -1"),
        ([[0.0], [1.0]], [0], "2 inputs but 1 labels"),
        (np.zeros((0, 4)), [], "no examples"),
        ([["a"], ["b"]], [0, 1], "are not numbers"),
        ([0.0, 1.0], [0, 1], "one row per example"),
        ([[0.0], [1.0]], ["x", None], "example 1 has no label"),
        ([[0.0], [1.0]], [b"x", b"y"], "are not class indices: say what the classes are called"),
        ([[0.0], [1.0]], [[0], [1]], "one number per example"),
    ],
)
def test_bad_data_is_refused_with_its_place(inputs, targets, message):
    with pytest.raises(InputError, match=message):
        as_dataset(np.array(inputs), np.array(targets), num_classes=3)


def test_named_classes_become_indices_in_the_given_order():
    data = as_dataset(np.zeros((3, 2)), np.array(["b", "a", "b"]), class_names=["a", "b"])
    assert data.targets.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="'c' is not in class_names"):
        as_dataset(np.zeros((1, 2)), np.array(["c"]), class_names=["a", "b"])


def test_standard_scaling_gives_mean_zero_and_variance_one_and_spares_constant_features():
    inputs = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    assert Scaling.standard(inputs)(inputs).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    constant = torch.full((300, 2), 0.1)  # whose mean in short floats is not 0.1
    assert Scaling.standard(constant).factor.tolist() == [1.0, 1.0]


def test_bytes_are_scaled_as_floats():
    assert Scaling.by(1 / 255)(torch.tensor([255], dtype=torch.uint8)).tolist() == [1.0]


def test_every_example_is_seen_once_an_epoch_in_an_order_of_its_own():
    data = as_dataset(np.arange(23.0).reshape(-1, 1), np.zeros(23, int))
    batches = ArrayBatches(data, 5, seed=1)
    orders = [torch.cat([x.flatten() for x, _ in batches.epoch(e)]).tolist() for e in range(3)]
    assert all(sorted(order) == list(range(23)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    again = ArrayBatches(data, 5, seed=1)
    assert torch.cat([x.flatten() for x, _ in again.epoch(2)]).tolist() == orders[2]
    late = torch.cat([x.flatten() for x, _ in batches.epoch(2, start=3)]).tolist()
    assert late == orders[2][15:]
    assert batches.steps == 5


def targets(values: object, source: str) -> torch.Tensor:
    """Targets of a batch, as a task of two classes checks them."""
    return Classification(num_classes=2).checked_targets(values, source)


def loader(count: int = 12) -> DataLoader:
    data = TensorDataset(torch.arange(float(count)).unsqueeze(1), torch.zeros(count).long())
    return DataLoader(data, batch_size=5, shuffle=True)


def test_a_loader_is_replayed_to_any_position_and_leaves_the_random_state_alone():
    batches = LoaderBatches(loader(), seed=4, targets=targets)
    first = [x.flatten().tolist() for x, _ in batches.epoch(1)]
    torch.manual_seed(77)
    before = torch.get_rng_state()
    again = [x.flatten().tolist() for x, _ in batches.epoch(1, start=1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert again == first[1:]
    assert [x.flatten().tolist() for x, _ in batches.epoch(2)] != first
    assert (batches.num_data, batches.steps) == (12, 3)


def test_an_empty_loader_is_refused():
    empty = DataLoader(TensorDataset(torch.zeros(0, 1), torch.zeros(0).long()), batch_size=5)
    with pytest.raises(InputError, match="the data loader is empty"):
        LoaderBatches(empty, seed=0, targets=targets)


def test_a_loader_without_a_length_needs_num_data():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(InputError, match="give num_data"):
        LoaderBatches(DataLoader(Stream()), seed=0, targets=targets)


def test_a_loader_without_a_length_goes_by_num_data():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.tensor([float(k)]), k % 2) for k in range(7)])

    batches = LoaderBatches(DataLoader(Stream(), batch_size=3), seed=0, targets=targets, num_data=7)
    assert [len(y) for _, y in batches.epoch(0)] == [3, 3, 1]


def test_a_loaders_own_generator_is_reseeded_every_epoch():
    data = TensorDataset(torch.arange(12.0).unsqueeze(1), torch.zeros(12).long())

    def order(start: int) -> list[float]:
        generator = torch.Generator().manual_seed(start)
        own = DataLoader(data, batch_size=12, shuffle=True, generator=generator)
        batches = LoaderBatches(own, seed=0, targets=targets)
        return next(batches.epoch(3))[0].flatten().tolist()

    assert order(1) == order(2)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((torch.zeros(2, 1), torch.zeros(2, 3)), "one number per example"),
        ((torch.zeros(2, 1), torch.zeros(2), 1), "not a pair"),
        ({"x": torch.zeros(2, 1)}, "not a pair"),
    ],
)
def test_batches_of_another_form_are_refused(batch, message):
    whole = DataLoader([batch], batch_size=None)
    with pytest.raises(InputError, match=message):
        next(LoaderBatches(whole, seed=0, targets=targets).epoch(0))


def test_a_flipped_byte_in_a_packed_mnist_file_is_damage(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    packed = bytearray(gzip.compress(bytes(range(256)) * 40))
    for position in range(12, len(packed), 9):
        damaged = bytearray(packed)
        damaged[position] ^= 0xFF
        (folder / "train-images-idx3-ubyte.gz").write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            mnist(tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([0, 1], "must be a list of texts"),
        ("ab", "must be a list of texts"),
        (["a", "a"], "has 'a' twice"),
    ],
)
def test_class_names_are_different_texts(names, message):
    with pytest.raises(InputError, match=message):
        as_dataset(np.zeros((2, 1)), np.array([0, 1]), class_names=names)


def test_bad_values_from_a_loader_are_refused_when_they_come():
    data = TensorDataset(torch.tensor([[0.0], [float("nan")]]), torch.tensor([0, 1]))
    batches = LoaderBatches(DataLoader(data, batch_size=1), seed=0, targets=targets)
    with pytest.raises(InputError, match="batch 1 of the data loader"):
        list(batches.epoch(0))


def test_digits_are_split_once_and_for_all():
    train, test = digits()
    assert (len(train), len(test)) == (900, 897)
    assert train.scaled().max() == 1
    assert train.feature_names[9] == "pixel_1_1"


def test_digits_are_those_of_scikit_learn_in_an_order_of_their_own():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
    inputs = torch.cat([part.inputs for part in digits()])
    assert inputs.dtype == torch.float32
    assert torch.equal(inputs, torch.from_numpy(images).float()[order])
    targets = torch.cat([part.targets for part in digits()])
    assert targets.tolist() == labels[order].tolist()


def test_diabetes_is_that_of_scikit_learn_unscaled_in_an_order_of_its_own():
    expected = load_diabetes(scaled=False)
    order = torch.randperm(442, generator=torch.Generator().manual_seed(0))
    inputs = torch.cat([part.inputs for part in diabetes()])
    targets = torch.cat([part.targets for part in diabetes()])
    assert (inputs.dtype, targets.dtype) == (torch.float32, torch.float64)
    assert torch.equal(inputs, torch.from_numpy(expected.data).float()[order])
    assert targets.flatten().tolist() == expected.target[order].tolist()
    assert list(FEATURES) == expected.feature_names


def test_diabetes_is_split_once_and_for_all_and_scaled_by_its_training_part():
    train, test = diabetes()
    assert (len(train), len(test)) == (332, 110)
    assert (train.class_names, train.target_names) == (None, ("progression",))
    scaled = train.scaled().double()
    assert scaled.mean(0).tolist() == pytest.approx([0.0] * 10, abs=1e-5)
    assert scaled.std(0, correction=0).tolist() == pytest.approx([1.0] * 10, abs=1e-5)
    assert test.scaling is train.scaling


def test_a_damaged_mnist_file_is_named(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    name = "train-images-idx3-ubyte"
    (folder / f"{name}.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(CorruptFileError, match=f"{name}.gz is not the {name} it should be"):
        mnist(tmp_path)
    (folder / f"{name}.gz").write_bytes(gzip.compress(b"something else")[:-9])
    with pytest.raises(CorruptFileError, match="is damaged"):
        mnist(tmp_path)


def test_without_files_and_network_the_message_says_where_to_put_them(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", refused)
    with pytest.raises(InputError, match=r"MNIST is not in .* SPARSEMBLE_DATA"):
        mnist(tmp_path)


@pytest.mark.skipif(
    not (data_folder() / "mnist").is_dir(), reason="MNIST is not in the data directory"
)
def test_mnist_is_what_it_should_be():
    train, test = mnist()
    assert train.inputs.shape == (60_000, 784)
    assert test.inputs.shape == (10_000, 784)
    assert train.targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert train.scaled().max() == 1


def test_a_loader_with_a_batch_sampler_of_its_own_is_replayed():
    data = TensorDataset(torch.arange(20.0).view(-1, 1), torch.zeros(20, dtype=torch.int64))
    order = RandomSampler(data, generator=torch.Generator())
    loader = DataLoader(data, batch_sampler=BatchSampler(order, 4, drop_last=False))
    batches = LoaderBatches(loader, seed=4, targets=targets)
    first = [inputs.flatten().tolist() for inputs, _ in batches.epoch(3)]
    assert [inputs.flatten().tolist() for inputs, _ in batches.epoch(3)] == first
    assert [inputs.flatten().tolist() for inputs, _ in batches.epoch(3, start=2)] == first[2:]


def test_labels_that_are_names_are_classes_in_the_order_of_the_alphabet():
    data = as_dataset(np.zeros((3, 1)), ["pear", "apple", "pear"])
    assert data.class_names == ("apple", "pear")
    assert data.targets.tolist() == [1, 0, 1]


def test_a_column_that_single_precision_would_flatten_is_refused():
    seconds = 1.7e9 + np.arange(50.0)[:, None]
    with pytest.raises(InputError, match=r"feature 0 lies between 1700000000 and 1700000049, .*"):
        as_dataset(seconds, np.arange(50) % 2)
    assert len(as_dataset(seconds - 1.7e9, np.arange(50) % 2)) == 50


def test_a_loader_of_a_part_of_the_examples_counts_that_part():
    data = TensorDataset(torch.zeros(50, 2), torch.zeros(50).long())
    part = DataLoader(data, batch_size=5, sampler=SubsetRandomSampler(range(10)))
    batches = LoaderBatches(part, seed=0, targets=targets)
    assert (batches.num_data, batches.steps) == (10, 2)
