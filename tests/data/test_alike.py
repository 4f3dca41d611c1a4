"""Copies of an example are set aside together, unless they are common."""

from __future__ import annotations

import pytest
import torch

from sparsemble.data import as_dataset
from sparsemble.data.alike import alike
from sparsemble.errors import InputError
from sparsemble.tasks import Classification


def rows_of(data) -> set[tuple[float, ...]]:
    return {tuple(row) for row in data.inputs.tolist()}


def numbers(count: int, copies: int):
    torch.manual_seed(0)
    inputs = torch.randn(count, 3).repeat(copies, 1)
    return as_dataset(inputs, torch.arange(count).repeat(copies) % 2)


def test_copies_never_stand_on_both_sides_of_a_split():
    train, held = Classification().hold_out(numbers(50, copies=4), 0.2, 1000, seed=3)
    assert len(train) + len(held) == 200
    assert len(held) == 40
    assert not rows_of(train) & rows_of(held)


def test_without_copies_examples_are_drawn_one_by_one():
    data = numbers(50, copies=1)
    _, held = Classification().hold_out(data, 0.2, 1000, seed=3)
    drawn = torch.randperm(50, generator=torch.Generator().manual_seed(3))[:10].sort().values
    assert torch.equal(held.inputs, data.inputs[drawn])


def test_common_examples_are_on_both_sides():
    train, held = Classification().hold_out(numbers(4, copies=50), 0.2, 1000, seed=3)
    assert rows_of(train) == rows_of(held)
    assert len(held) == 40


def test_targets_tell_examples_apart_and_so_does_a_sign():
    data = as_dataset([[1.0, 2.0], [1.0, -2.0], [1.0, 2.0], [1.0, 2.0]], [0, 0, 0, 1])
    assert alike(data).tolist() == [0, 1, 0, 2]


def test_several_inputs_are_copies_if_all_of_them_are():
    one, other = torch.tensor([[1], [1], [1]]), torch.tensor([[0.5], [0.5], [0.7]])
    assert alike(as_dataset((one, other), [0, 0, 0])).tolist() == [0, 0, 1]


def test_copies_of_one_example_cannot_be_split():
    with pytest.raises(InputError, match="are copies of few"):
        Classification().hold_out(numbers(1, copies=10), 0.2, 1000, seed=0)
