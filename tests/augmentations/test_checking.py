"""What an augmentation of the user's own may not do, found out with one batch."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from sparsemble.augmentations import (
    Augmentation,
    FunctionAugmentation,
    InputDropout,
    InputNoise,
    Several,
    Warp,
    WordDropout,
    checked,
)
from sparsemble.errors import InputError


class Doubled(Augmentation):
    """Gives every example twice."""

    def __call__(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs, inputs])


def halved(inputs: Tensor) -> Tensor:
    return inputs.half()


def logarithm(inputs: Tensor) -> Tensor:
    return (inputs - inputs).log()


def listed(inputs: Tensor) -> list[float]:
    return inputs.tolist()


def in_place(inputs: Tensor) -> Tensor:
    return inputs.add_(1)


def elsewhere(inputs: Tensor) -> Tensor:
    return inputs + random.random()


def broken(inputs: Tensor) -> Tensor:
    return inputs.view(7, 7, 7)


REFUSED = [
    (
        Doubled(),
        "Doubled must return inputs of the same kind, (4, 9) of torch.float32, not (8, 9) "
        "of torch.float32",
    ),
    (
        halved,
        "halved must return inputs of the same kind, (4, 9) of torch.float32, not (4, 9) of "
        "torch.float16",
    ),
    (logarithm, "logarithm returns numbers that are not finite"),
    (listed, "listed must return a tensor, not list"),
    (in_place, "in_place changes its inputs in place: let it return new ones"),
    (
        elsewhere,
        "elsewhere gives other inputs for the same state of PyTorch's generator, so that "
        "a resumed run would not be the same: draw from torch.rand, torch.randn and the like",
    ),
    (
        broken,
        "broken cannot take inputs (4, 9) of torch.float32: RuntimeError: shape '[7, 7, 7]' "
        "is invalid for input of size 36",
    ),
]


def augmentation(given) -> Augmentation:
    return given if isinstance(given, Augmentation) else FunctionAugmentation(function=given)


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_it_is_refused_with_its_name_and_what_it_returned(given, said):
    with pytest.raises(InputError) as told:
        checked(augmentation(given), torch.rand(4, 9))
    assert str(told.value) == said


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_among_several_the_one_that_is_wrong_is_named(given, said):
    with pytest.raises(InputError) as told:
        checked(Several(parts=(InputDropout(), given, Warp())), torch.rand(4, 9))
    assert str(told.value) == said


def test_a_part_is_tried_on_what_the_one_before_it_left():
    late = Several(parts=(lambda inputs: inputs * 1e30, lambda inputs: inputs * 1e30))
    with pytest.raises(InputError, match="<lambda> returns numbers that are not finite"):
        checked(late, torch.rand(4, 9) + 1)


def test_an_augmentation_that_says_itself_what_is_wrong_is_quoted():
    with pytest.raises(InputError, match="inputs of 10 numbers are no square image"):
        checked(Warp(), torch.rand(4, 10))


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        (Warp(), torch.rand(4, 9)),
        (InputNoise(), torch.rand(4, 3, 2).double()),
        (Several(parts=(Warp(), InputDropout())), torch.rand(4, 9)),
        (WordDropout(share=0.5, unknown=1), torch.randint(7, (6, 2))),
    ],
)
def test_a_good_one_passes_and_leaves_inputs_and_random_numbers_alone(given, inputs):
    before, state = inputs.clone(), torch.get_rng_state()
    assert checked(given, inputs) is None
    assert torch.equal(inputs, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_inputs_are_spared_even_by_one_that_changes_them():
    inputs = torch.zeros(2, 2)
    with pytest.raises(InputError, match="in place"):
        checked(augmentation(in_place), inputs)
    assert not inputs.any()
