"""The noise has the law it promises, number by number and jointly, whatever shapes are asked for.

Everything is seeded, so a bound is either kept or not; five standard errors leave a right
generator one chance in two million to break one.
"""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from scenarios import STANDARD_ERRORS, correlation
from sparsemble.errors import InputError
from sparsemble.samplers import NoiseSource
from sparsemble.samplers.noise import normal_points

COUNT = 1 << 20
UNCORRELATED = STANDARD_ERRORS / math.sqrt(COUNT / 2)
BOTH_KINDS = pytest.mark.parametrize("kind", ["gaussian", "rademacher"])


def source(kind: str, seed: int = 1, dtype: torch.dtype = torch.float32) -> NoiseSource:
    return NoiseSource(kind, torch.Generator().manual_seed(seed), dtype)


def drawn(kind: str, count: int = COUNT, seed: int = 1) -> Tensor:
    return source(kind, seed).draw([torch.empty(count)])[0].double()


def assert_average(values: Tensor, expected: float, variance: float) -> None:
    """The mean of `values` is `expected`, given the variance of one of them."""
    error = math.sqrt(variance / len(values))
    assert abs(float(values.double().mean()) - expected) < STANDARD_ERRORS * error


class TestGaussian:
    @pytest.mark.parametrize(
        ("power", "expected", "variance"), [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]
    )
    def test_the_first_four_moments_are_those_of_the_normal_law(self, power, expected, variance):
        assert_average(drawn("gaussian") ** power, expected, variance)

    def test_the_distribution_is_the_normal_one(self):
        # 1 in 1,000 right generators would fail; the seed is fixed.
        assert stats.kstest(drawn("gaussian").numpy(), "norm").pvalue > 1e-3

    def test_small_tensors_have_the_same_distribution(self):
        # Ten numbers come from the front of the buffer only: the rest of it is thrown away.
        noise, like = source("gaussian"), [torch.empty(10)]
        values = torch.cat([noise.draw(like)[0].clone() for _ in range(20_000)])
        assert stats.kstest(values.double().numpy(), "norm").pvalue > 1e-3
        assert abs(correlation(values[:-1], values[1:])) < STANDARD_ERRORS / math.sqrt(len(values))

    def test_no_number_lies_beyond_five_standard_deviations(self):
        assert 4 < float(drawn("gaussian", 1 << 23).abs().max()) < 5

    def test_tails_up_to_four_standard_deviations_are_as_heavy_as_they_should_be(self):
        values = drawn("gaussian", 1 << 23)
        for threshold in (2.0, 3.0, 4.0):
            share = 2 * stats.norm.sf(threshold)
            assert_average((values.abs() > threshold), share, share)

    def test_each_lane_of_the_random_words_gives_unit_variance(self):
        lanes = drawn("gaussian").view(-1, 8)
        for lane in lanes.unbind(1):
            assert_average(lane, 0, 1)
            assert_average(lane**2, 1, 2)

    @pytest.mark.parametrize("power", [1, 2], ids=["values", "squares"])
    def test_no_two_of_the_numbers_from_one_random_word_are_correlated(self, power):
        words = (drawn("gaussian") ** power).view(-1, 8)
        found = torch.corrcoef(words.T) - torch.eye(8)
        assert float(found.abs().max()) < STANDARD_ERRORS / math.sqrt(len(words))

    def test_a_pair_of_neighbours_is_spread_evenly_over_all_directions(self):
        values = drawn("gaussian")
        angle = torch.atan2(values[::2], values[1::2])
        share = (angle.numpy() + math.pi) / (2 * math.pi)
        assert stats.kstest(share, "uniform").pvalue > 1e-3

    def test_the_points_have_the_moments_of_the_normal_law_in_every_direction(self):
        points = torch.view_as_real(normal_points())
        assert len(points.unique(dim=0)) == 1 << 16
        torch.testing.assert_close(points.T @ points / len(points), torch.eye(2).double())
        angles = torch.linspace(0, math.pi, 91, dtype=torch.float64)
        seen = points @ torch.stack([angles.cos(), angles.sin()])
        for power, expected, tolerance in [
            (1, 0, 1e-12),
            (3, 0, 1e-12),
            (4, 3, 3e-3),
            (6, 15, 0.1),
        ]:
            assert (seen**power).mean(0).sub(expected).abs().max() < tolerance, power


class TestRademacher:
    def test_there_are_only_signs(self):
        assert set(drawn("rademacher").unique().tolist()) == {-1.0, 1.0}

    def test_the_signs_are_balanced(self):
        assert_average(drawn("rademacher"), 0, 1)

    def test_every_bit_of_the_random_words_is_balanced(self):
        bits = drawn("rademacher").view(-1, 64)
        for bit in bits.unbind(1):
            assert_average(bit, 0, 1)

    def test_no_two_of_the_eight_bits_of_a_byte_are_correlated(self):
        bytes_ = drawn("rademacher").view(-1, 8)
        found = torch.corrcoef(bytes_.T) - torch.eye(8)
        assert float(found.abs().max()) < STANDARD_ERRORS / math.sqrt(len(bytes_))


@pytest.mark.parametrize(
    ("kind", "power"), [("gaussian", 1), ("gaussian", 2), ("gaussian", 3), ("rademacher", 1)]
)
class TestIndependence:
    def test_neighbours_are_uncorrelated(self, kind, power):
        values = drawn(kind) ** power
        for distance in (1, 2, 4, 8, 16, 32, 64):
            found = correlation(values[:-distance], values[distance:])
            assert abs(found) < UNCORRELATED, distance

    def test_successive_draws_are_uncorrelated(self, kind, power):
        noise, like = source(kind), [torch.empty(COUNT)]
        first = noise.draw(like)[0].double() ** power
        second = noise.draw(like)[0].double() ** power
        assert abs(correlation(first, second)) < UNCORRELATED


@BOTH_KINDS
class TestDrawing:
    def test_the_same_seed_gives_the_same_bits(self, kind):
        assert torch.equal(drawn(kind, 1_000, seed=3), drawn(kind, 1_000, seed=3))

    def test_another_seed_gives_other_bits(self, kind):
        assert abs(correlation(drawn(kind, seed=3), drawn(kind, seed=4))) < UNCORRELATED

    def test_a_source_can_go_on_from_its_generators_state(self, kind):
        noise, like = source(kind), [torch.empty(77)]
        noise.draw(like)
        state = noise.generator.get_state()
        expected = noise.draw(like)[0].clone()
        other = source(kind, seed=9)
        other.generator.set_state(state)
        assert torch.equal(other.draw(like)[0], expected)

    @pytest.mark.parametrize("count", [1, 7, 63, 64, 65, 127, 1_000])
    def test_any_number_of_values_can_be_drawn(self, kind, count):
        noise = source(kind)
        values = torch.stack([noise.draw([torch.empty(count)])[0].clone() for _ in range(400)])
        # Every position moves: over 400 draws each has about mean 0 and variance 1.
        assert values.shape == (400, count)
        assert float(values.mean(0).abs().max()) < STANDARD_ERRORS / math.sqrt(400)
        assert float((values.square().mean(0) - 1).abs().max()) < STANDARD_ERRORS * math.sqrt(
            2 / 400
        )

    def test_several_tensors_keep_their_shapes_and_share_no_number(self, kind):
        like = [torch.empty(()), torch.empty(3, 5, 7), torch.empty(0, 4), torch.empty(500)]
        noise = source(kind).draw(like)
        assert [tuple(tensor.shape) for tensor in noise] == [(), (3, 5, 7), (0, 4), (500,)]
        single = source(kind).draw([torch.empty(606)])[0]
        assert torch.equal(torch.cat([tensor.flatten() for tensor in noise]), single)

    def test_the_shapes_may_change_from_draw_to_draw(self, kind):
        noise = source(kind)
        assert [noise.draw([torch.empty(n)])[0].shape[0] for n in (5, 200, 5)] == [5, 200, 5]

    def test_nothing_is_allocated_anew_for_shapes_seen_before(self, kind):
        noise = source(kind)
        first, _, again = (noise.draw([torch.empty(n)])[0].data_ptr() for n in (5, 200, 5))
        assert first == again

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
    def test_in_every_precision_mean_and_variance_are_right(self, kind, dtype):
        noise = source(kind, dtype=dtype).draw([torch.empty(COUNT, dtype=dtype)])[0]
        assert noise.dtype == dtype
        assert bool(torch.isfinite(noise).all())
        # A rounded normal law: its variance may be off by the square of the precision.
        precision = torch.finfo(dtype).eps
        mean, variance = float(noise.double().mean()), float(noise.double().var())
        assert abs(mean) < STANDARD_ERRORS / math.sqrt(COUNT)
        assert abs(variance - 1) < STANDARD_ERRORS * math.sqrt(2 / COUNT) + precision


def test_an_unknown_kind_is_refused_by_name():
    with pytest.raises(InputError, match="'uniform' is not 'gaussian' or 'rademacher'"):
        source("uniform")
