"""Warps: against shifted, turned, flipped and resized images written out without interpolation."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from scenarios import assert_close_in_law
from sparsemble.augmentations import Warp, warped
from sparsemble.errors import InputError

STILL = {"rotation": 0.0, "scale": 0.0, "shear": 0.0, "shift": 0.0}


def images(*sizes: int) -> Tensor:
    return torch.rand(*sizes, dtype=torch.float64)


def moved(
    given: Tensor,
    *,
    angle: float = 0.0,
    size: float = 1.0,
    shear: float = 0.0,
    right: float = 0.0,
    down: float = 0.0,
) -> Tensor:
    """All images by the same map."""
    numbers = (angle, size, shear, right, down)
    return warped(given, *(torch.full((len(given),), n, dtype=given.dtype) for n in numbers))


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


# --- the map ---------------------------------------------------------------------------------


def test_the_map_that_moves_nothing_gives_the_images():
    given = images(3, 2, 5, 7)
    assert_same(moved(given), given)


def test_a_shift_by_a_pixel_is_a_rolled_image_whose_edge_is_repeated():
    given = images(2, 1, 4, 5)
    right = given.roll(1, dims=-1)
    right[..., 0] = given[..., 0]
    assert_same(moved(given, right=1.0), right)
    up = given.roll(-1, dims=-2)
    up[..., -1, :] = given[..., -1, :]
    assert_same(moved(given, down=-1.0), up)


def test_a_shift_by_half_a_pixel_is_the_mean_of_neighbours():
    given = images(1, 1, 3, 4)
    between = (given[..., :-1] + given[..., 1:]) / 2
    assert_same(moved(given, right=0.5)[..., 1:], between)


@pytest.mark.parametrize("quarters", [1, 2, 3, -1])
def test_quarter_turns_of_square_images_are_those_of_rot90(quarters):
    given = images(2, 3, 6, 6)
    turned = moved(given, angle=quarters * math.pi / 2)
    assert_same(turned, torch.rot90(given, quarters, dims=(-2, -1)))


def test_half_a_turn_of_an_image_that_is_no_square_is_exact_too():
    given = images(2, 1, 3, 8)
    assert_same(moved(given, angle=math.pi), torch.rot90(given, 2, dims=(-2, -1)))


def test_a_quarter_turn_of_an_oblong_image_turns_its_inner_square():
    # Pixels stay square: in normalised coordinates a turn would squeeze the image.
    given = images(1, 1, 4, 8)
    inner = moved(given, angle=math.pi / 2)[..., 2:6]
    assert_same(inner, torch.rot90(given[..., 2:6], 1, dims=(-2, -1)))


def test_an_image_three_times_as_large_shows_the_middle_at_every_third_pixel():
    given = images(1, 1, 9, 9)
    larger = moved(given, size=3.0)
    assert_same(larger[..., 1::3, 1::3], given[..., 3:6, 3:6])


def test_a_shear_of_one_moves_every_row_by_its_distance_from_the_middle():
    given = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    given[..., 2] = 1.0  # an upright line
    assert_same(moved(given, shear=1.0)[0, 0], torch.eye(5, dtype=torch.float64))


def test_the_shear_comes_before_the_turn():
    given = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    given[..., 2] = 1.0
    turned = moved(given, shear=1.0, angle=math.pi / 2)
    assert_same(turned[0, 0], torch.eye(5, dtype=torch.float64).flip(0))


def test_the_shift_comes_first_and_the_turn_is_about_the_centre():
    given = images(1, 1, 5, 5)
    both = moved(given, angle=math.pi / 2, right=1.0)
    assert_same(both, moved(moved(given, right=1.0), angle=math.pi / 2))


def test_all_together_are_torchs_grid_of_the_inverted_matrix():
    given, count = images(20, 2, 7, 11), 20
    angle, size, shear, right, down = torch.rand(5, count, dtype=torch.float64) - 0.5
    size = 1 + size
    row = torch.stack([angle.cos(), angle.sin()], -1), torch.stack([-angle.sin(), angle.cos()], -1)
    leaning = torch.eye(2, dtype=torch.float64).repeat(count, 1, 1)
    leaning[:, 0, 1] = shear
    matrix = torch.stack(row, -2) @ leaning * size.view(-1, 1, 1)
    half = torch.tensor([11 / 2, 7 / 2], dtype=torch.float64)  # pixels in torch's unit
    inverse = torch.linalg.inv(matrix) * half / half.unsqueeze(-1)
    shift = -(torch.stack([right, down], -1) / half).unsqueeze(-1)
    grid = F.affine_grid(torch.cat([inverse, shift], -1), given.shape, align_corners=False)
    expected = F.grid_sample(given, grid, padding_mode="border", align_corners=False)
    assert_same(warped(given, angle, size, shear, right, down), expected)


def test_every_image_follows_its_own_numbers():
    given = images(2, 1, 4, 4)
    angles = torch.tensor([0.0, math.pi], dtype=torch.float64)
    found = warped(given, angles, torch.ones_like(angles), *[torch.zeros_like(angles)] * 3)
    assert_same(found[0], given[0])
    assert_same(found[1], given[1].flip(-1, -2))


# --- random warps ----------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(3, 36), (3, 6, 6), (3, 2, 6, 6), (3, 1, 4, 9)])
def test_without_any_strength_inputs_of_every_form_stay(sizes):
    given = images(*sizes)
    assert_same(Warp(**STILL)(given), given)


def test_flat_inputs_are_warped_as_the_images_they_are():
    given = images(5, 2, 4, 6)
    draws = []
    for form in (given, given.flatten(1)):
        torch.manual_seed(3)
        draws.append(Warp(shape=(4, 6))(form))
    assert draws[1].shape == (5, 48)
    assert torch.equal(draws[0].flatten(1), draws[1])


def test_inputs_without_channels_are_warped_as_those_with_one():
    given, draws = images(5, 4, 6), []
    for form in (given, given.unsqueeze(1)):
        torch.manual_seed(3)
        draws.append(Warp()(form))
    assert torch.equal(draws[0].unsqueeze(1), draws[1])


def test_a_seed_fixes_the_warps_and_another_gives_others():
    given = images(4, 49)
    draws = [Warp()(given) for seed in (1, 1, 2) if torch.manual_seed(seed)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.isclose(draws[0], draws[2]).all(dim=1).any()


def test_equal_examples_of_a_batch_are_warped_differently():
    given = images(1, 7, 7).expand(6, 7, 7)
    found = Warp()(given)
    apart = torch.cdist(found.flatten(1), found.flatten(1)) + torch.eye(6)
    assert apart.min() > 1e-3


def test_the_given_images_are_left_alone():
    given = images(4, 49)
    before = given.clone()
    Warp()(given)
    assert torch.equal(given, before)


@pytest.mark.parametrize(
    ("strength", "largest"), [("shift", 2.0), ("rotation", 20.0), ("scale", 0.2), ("shear", 0.3)]
)
def test_a_strength_is_the_largest_change_in_both_directions_and_evenly_drawn(strength, largest):
    # Two channels that hold each pixel's x and y from the centre tell where a pixel was read.
    count, offsets = 4000, torch.arange(-4.0, 5.0, dtype=torch.float64)
    places = torch.stack([offsets.expand(9, 9), offsets.unsqueeze(1).expand(9, 9)])
    found = Warp(**{**STILL, strength: largest})(places.expand(count, 2, 9, 9))
    right, down = -found[:, :, 4, 4].T
    x, y = (found[:, :, 5, 4] - found[:, :, 4, 4]).T  # what was read for the pixel below
    drawn = {
        "shift": torch.cat([right, down]),
        "rotation": torch.atan2(-x, y).rad2deg(),
        "scale": 1 / y - 1,
        "shear": -x,
    }[strength]
    assert 0.99 * largest < drawn.max() <= largest * (1 + 1e-9)
    assert -largest * (1 + 1e-9) <= drawn.min() < -0.99 * largest
    # Of a uniform law, whose fourth moment is 9/5 of its squared variance.
    assert_close_in_law(drawn, mean=0.0, variance=largest**2 / 3, excess_kurtosis=9 / 5 - 3)


# --- scaling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rotation", [8.0, 90.0])
def test_the_warp_of_scaled_images_is_the_scaled_warp(rotation):
    given = images(6, 8, 8)
    draws = []
    for scaled in (given, 3 * given - 2):
        torch.manual_seed(5)
        draws.append(Warp(rotation=rotation, shift=3.0)(scaled))
    assert_same(draws[1], 3 * draws[0] - 2)


def test_a_background_of_any_value_stays_background():
    given = torch.full((6, 8, 8), -0.42, dtype=torch.float64)
    assert_same(Warp(rotation=90.0, shift=5.0)(given), given)


def test_floats_of_both_lengths_are_kept():
    assert Warp()(torch.rand(2, 9)).dtype == torch.float32
    assert Warp()(torch.rand(2, 9, dtype=torch.float64)).dtype == torch.float64


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("warp", "given", "said"),
    [
        (
            Warp(),
            torch.rand(2, 10),
            "inputs of 10 numbers are no square image: give the warp shape = (height, width)",
        ),
        (
            Warp(),
            torch.rand(2, 3),
            "inputs of 3 numbers are no square image: give the warp shape = (height, width)",
        ),
        (
            Warp(shape=(3, 4)),
            torch.rand(2, 16),
            "inputs of 16 numbers hold no images of (3, 4): give the warp shape = (height, width)",
        ),
        (
            Warp(shape=(3, 4)),
            torch.rand(2, 4, 3),
            "shape = (3, 4) of a warp, but the inputs are (2, 4, 3)",
        ),
        (
            Warp(),
            torch.rand(9),
            "a warp takes images (n, h, w), (n, c, h, w) or flat ones (n, c·h·w), not (9,)",
        ),
        (
            Warp(),
            torch.ones(2, 9, dtype=torch.int64),
            "Warp is for scaled numbers, not for inputs of torch.int64: words of a text take "
            "WordDropout",
        ),
    ],
)
def test_inputs_that_are_no_images_are_refused(warp, given, said):
    with pytest.raises(InputError) as told:
        warp(given)
    assert str(told.value) == said


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"rotation": -1}, "rotation = -1"),
        ({"rotation": 181}, "rotation = 181"),
        ({"scale": 1.0}, "scale = 1.0"),
        ({"shear": math.inf}, "shear = inf"),
        ({"shift": math.nan}, "shift = nan"),
        ({"shape": (0, 3)}, "shape.0 = 0"),
        ({"shape": (3,)}, "shape.1"),
        ({"angle": 3}, "unknown setting 'angle'"),
    ],
)
def test_an_impossible_warp_is_refused_with_the_value_named(fields, named):
    with pytest.raises(InputError, match=named):
        Warp(**fields)
