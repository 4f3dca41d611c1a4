"""Noise and dropout of inputs: their laws, their seeds, what they refuse."""

from __future__ import annotations

import math

import pytest
import torch

from scenarios import assert_close_in_law, correlation
from sparsemble.augmentations import InputDropout, InputNoise
from sparsemble.errors import InputError


def test_noise_has_the_stated_deviation_about_the_inputs():
    given = torch.randn(400, 50, dtype=torch.float64)
    noise = InputNoise(std=0.3)(given) - given
    assert_close_in_law(noise, mean=0.0, variance=0.09)


def test_noise_of_one_input_tells_nothing_about_another():
    given = torch.zeros(40_000, 2)
    noise = InputNoise(std=2.0)(given)
    assert abs(correlation(noise[:, 0], noise[:, 1])) < 5 / math.sqrt(40_000)
    assert abs(correlation(noise[:-1, 0], noise[1:, 0])) < 5 / math.sqrt(40_000)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_dropout_sets_a_share_of_the_inputs_to_zero_and_divides_the_others(share):
    given = torch.rand(300, 100, dtype=torch.float64) + 1
    found = InputDropout(share=share)(given)
    dropped = found == 0
    error = 5 * math.sqrt(share * (1 - share) / dropped.numel())
    assert abs(float(dropped.double().mean()) - share) < error
    # The rate is the nearest of 65,536 steps, and what is kept is divided by exactly that.
    torch.testing.assert_close(found[~dropped], given[~dropped] / (1 - share), rtol=1e-5, atol=0)


def test_dropout_keeps_the_mean_of_every_input():
    given = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    found = InputDropout(share=0.25)(given.expand(40_000, 3))
    for column, value in zip(found.T, given.tolist(), strict=True):
        # value²·share/(1 − share) is the variance of value·kept/(1 − share)
        error = 5 * math.sqrt(value**2 * (1 / 3) / 40_000)
        assert abs(float(column.mean()) - value) < error


def test_every_row_loses_columns_of_its_own():
    dropped = InputDropout(share=0.5)(torch.ones(40_000, 2)) == 0
    assert abs(correlation(dropped[:-1, 0], dropped[1:, 0])) < 5 / math.sqrt(40_000)
    assert abs(correlation(dropped[:, 0], dropped[:, 1])) < 5 / math.sqrt(40_000)


@pytest.mark.parametrize("nothing", [InputNoise(std=0.0), InputDropout(share=0.0)])
def test_without_strength_the_inputs_stay(nothing):
    given = torch.randn(5, 3)
    assert torch.equal(nothing(given), given)


@pytest.mark.parametrize("some", [InputNoise(), InputDropout()])
@pytest.mark.parametrize("sizes", [(20, 30), (10, 3, 5, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_seed_fixes_the_draw_and_shape_and_dtype_stay(some, sizes, dtype):
    given = torch.randn(sizes, dtype=dtype)
    before = given.clone()
    draws = [some(given) for seed in (1, 1, 2) if torch.manual_seed(seed)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert (draws[0].shape, draws[0].dtype) == (sizes, dtype)
    assert torch.equal(given, before)


@pytest.mark.parametrize("some", [InputNoise(), InputDropout()])
def test_words_of_a_text_are_refused(some):
    with pytest.raises(InputError) as told:
        some(torch.tensor([[1, 2]]))
    assert str(told.value) == (
        f"{type(some).__name__} is for scaled numbers, not for inputs of torch.int64: words of a "
        "text take WordDropout"
    )


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        (InputNoise, {"std": -0.1}, "std = -0.1"),
        (InputNoise, {"std": math.inf}, "std = inf"),
        (InputDropout, {"share": 1.0}, "share = 1.0"),
        (InputDropout, {"share": -0.1}, "share = -0.1"),
        (InputDropout, {"share": math.nan}, "share = nan"),
    ],
)
def test_an_impossible_strength_is_refused_with_the_value_named(kind, fields, named):
    with pytest.raises(InputError, match=named):
        kind(**fields)
