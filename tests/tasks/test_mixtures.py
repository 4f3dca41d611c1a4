"""Mixtures of normal laws against scipy, numerical integration and closed forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from sparsemble.tasks.mixtures import Mixture

LEVELS = (0.5, 0.9, 0.95)
PROBABILITIES = (0.001, 0.05, 0.3, 0.5, 0.77, 0.99)


def some(members: int = 4, examples: int = 3, targets: int = 2) -> Mixture:
    """Mixtures with far and near, wide and narrow parts."""
    generator = torch.Generator().manual_seed(members)
    shape = (examples, members, targets)
    means = 3 * torch.randn(shape, generator=generator, dtype=torch.float64)
    deviations = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 + 0.1
    return Mixture(means, deviations.square())


def pieces(law: Mixture) -> list[tuple[int, int, np.ndarray, np.ndarray]]:
    """Each example and target with the means and deviations of its parts."""
    examples, _, targets = law.means.shape
    return [
        (i, k, law.means[i, :, k].numpy(), law.variances[i, :, k].sqrt().numpy())
        for i in range(examples)
        for k in range(targets)
    ]


def density(x: float, means: np.ndarray, deviations: np.ndarray) -> float:
    return float(stats.norm.pdf(x, means, deviations).mean())


def integral(function, means: np.ndarray, deviations: np.ndarray) -> float:
    """Over everything that matters of a mixture, piece by piece where it bends."""
    low, high = float((means - 12 * deviations).min()), float((means + 12 * deviations).max())
    bends = sorted({low, high, *means, *(means - 2 * deviations), *(means + 2 * deviations)})
    cuts = [low, *[bend for bend in bends if low < bend < high], high]
    return sum(integrate.quad(function, a, b)[0] for a, b in itertools.pairwise(cuts))


@pytest.mark.parametrize("members", [1, 2, 5])
def test_mean_and_variance_are_those_of_the_density(members):
    law = some(members)
    for i, k, means, deviations in pieces(law):
        mean = integral(lambda x: x * density(x, means, deviations), means, deviations)  # noqa: B023
        variance = integral(
            lambda x: (x - mean) ** 2 * density(x, means, deviations),  # noqa: B023
            means,
            deviations,
        )
        assert float(law.mean[i, k]) == pytest.approx(mean, abs=1e-7)
        assert float(law.variance[i, k]) == pytest.approx(variance, rel=1e-6)


def test_the_variance_is_what_members_see_and_what_they_disagree_about():
    # Means 1 and 3 have the variance 1, the members' own variances 4 and 6 the mean 5.
    law = Mixture(torch.tensor([[[1.0], [3.0]]]), torch.tensor([[[4.0], [6.0]]]))
    assert (law.aleatoric.item(), law.epistemic.item(), law.variance.item()) == (5, 1, 6)


def test_the_cdf_is_the_mean_of_the_parts_and_the_integral_of_the_density():
    law = some()
    points = torch.tensor([[-1.0, 0.5], [2.0, -4.0], [0.0, 3.0]], dtype=torch.float64)
    found = law.cdf(points)
    for i, k, means, deviations in pieces(law):
        point = float(points[i, k])
        assert float(found[i, k]) == pytest.approx(
            stats.norm.cdf(point, means, deviations).mean(), abs=1e-13
        )
        below = integral(
            lambda x: density(x, means, deviations) * (x < point),  # noqa: B023
            np.append(means, point),
            np.append(deviations, 1e-9),
        )
        assert float(found[i, k]) == pytest.approx(below, abs=1e-6)


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("members", [1, 2, 7])
def test_below_a_quantile_lies_its_probability(members, probability):
    law = some(members)
    found = law.quantiles([probability])[0]
    assert law.cdf(found).flatten().tolist() == pytest.approx([probability] * 6, abs=1e-12)


def test_several_quantiles_at_once_are_those_one_by_one():
    law = some()
    together = law.quantiles(PROBABILITIES)
    assert together.shape == (6, 3, 2)
    for found, probability in zip(together, PROBABILITIES, strict=True):
        torch.testing.assert_close(found, law.quantiles([probability])[0], rtol=1e-12, atol=1e-12)


def test_quantiles_are_found_whatever_the_parts_are_like():
    # Parts a thousand deviations apart, a thousand times narrower than others, or far from 0.
    generator = torch.Generator().manual_seed(5)
    means = torch.randn(400, 6, 1, generator=generator).double() * 100 + 1e3
    variances = (torch.randn(400, 6, 1, generator=generator).double() * 4).exp()
    law = Mixture(means, variances)
    for found, probability in zip(law.quantiles(PROBABILITIES), PROBABILITIES, strict=True):
        steep = (variances.rsqrt().amax(1) * 1e-12).clamp_min(1e-12)  # of a rounding of the place
        assert bool(((law.cdf(found) - probability).abs() < steep).all())


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_quantile_of_a_single_part_is_that_of_the_normal_law(probability):
    law = some(1)
    expected = stats.norm.ppf(probability, law.means[:, 0], law.variances[:, 0].sqrt())
    assert law.quantiles([probability])[0].numpy() == pytest.approx(expected, rel=1e-12)


def test_a_quantile_is_found_between_parts_that_lie_far_apart():
    # Half of the law lies at −1000, half at 1000; at 1/4 and 3/4 are the parts' own medians.
    law = Mixture(torch.tensor([[[-1e3], [1e3]]]).double(), torch.ones(1, 2, 1).double())
    assert law.quantiles([0.25])[0].item() == pytest.approx(-1e3)
    assert law.quantiles([0.75])[0].item() == pytest.approx(1e3)
    assert law.quantiles([0.1])[0].item() == pytest.approx(-1e3 + stats.norm.ppf(0.2))


@pytest.mark.parametrize("level", LEVELS)
def test_an_interval_holds_its_level_and_leaves_as_much_on_either_side(level):
    law = some()
    low, high = law.interval(level)
    below, above = law.cdf(low).flatten().tolist(), (1 - law.cdf(high)).flatten().tolist()
    assert below == pytest.approx([(1 - level) / 2] * 6, abs=1e-12)
    assert above == pytest.approx(below, abs=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_draws_fall_into_the_interval_as_often_as_it_says(level):
    law = some(examples=1, targets=1)
    generator = torch.Generator().manual_seed(0)
    part = torch.randint(4, (100_000,), generator=generator)
    noise = torch.randn(100_000, generator=generator, dtype=torch.float64)
    drawn = law.means[0, part, 0] + law.variances[0, part, 0].sqrt() * noise
    low, high = (float(end) for end in law.interval(level))
    held = float(((drawn > low) & (drawn < high)).double().mean())
    assert held == pytest.approx(level, abs=5 * math.sqrt(level * (1 - level) / 100_000))


def test_the_log_density_of_several_targets_is_that_of_members_that_know_them_together():
    law, targets = some(), torch.randn(3, 2, dtype=torch.float64)
    expected = []
    for i in range(3):
        each = stats.norm.pdf(targets[i], law.means[i], law.variances[i].sqrt()).prod(-1)
        expected.append(math.log(each.mean()))
    assert law.log_density(targets).tolist() == pytest.approx(expected, rel=1e-12)


def test_a_single_part_has_the_log_density_of_torch():
    law, targets = some(1), torch.randn(3, 2, dtype=torch.float64)
    normal = torch.distributions.Normal(law.means[:, 0], law.variances[:, 0].sqrt())
    torch.testing.assert_close(law.log_density(targets), normal.log_prob(targets).sum(-1))


def test_the_log_density_far_out_is_finite():
    law = Mixture(torch.zeros(1, 2, 1).double(), torch.ones(1, 2, 1).double())
    far = torch.tensor([[1e4]]).double()
    assert law.log_density(far).item() == pytest.approx(-0.5e8 - 0.5 * math.log(2 * math.pi))


@pytest.mark.parametrize("members", [1, 3])
def test_crps_is_the_integral_of_the_squared_distance_of_the_cdfs(members):
    law, targets = some(members), torch.tensor([[0.3, -2.0], [5.0, 0.0], [-7.0, 1.0]]).double()
    found = law.crps(targets)
    for i, k, means, deviations in pieces(law):
        truth = float(targets[i, k])

        def squared(x: float, truth=truth, means=means, deviations=deviations) -> float:
            return (stats.norm.cdf(x, means, deviations).mean() - (x >= truth)) ** 2

        expected = integral(squared, np.append(means, truth), np.append(deviations, 1e-9))
        assert float(found[i, k]) == pytest.approx(expected, rel=1e-6)


def test_crps_of_a_single_part_is_the_closed_form_of_the_normal_law():
    # Gneiting & Raftery 2007: σ(z(2Φ(z) − 1) + 2φ(z) − 1/√π).
    law, targets = some(1), torch.randn(3, 2, dtype=torch.float64)
    deviation = law.variances[:, 0].sqrt().numpy()
    z = (targets - law.means[:, 0]).numpy() / deviation
    cdf, pdf = stats.norm.cdf(z), stats.norm.pdf(z)
    expected = deviation * (z * (2 * cdf - 1) + 2 * pdf - 1 / math.sqrt(math.pi))
    assert law.crps(targets).numpy() == pytest.approx(expected, rel=1e-12)


def test_parts_that_are_all_the_same_are_one_law():
    one, targets = some(1), torch.randn(3, 2, dtype=torch.float64)
    three = Mixture(one.means.expand(-1, 3, -1), one.variances.expand(-1, 3, -1))
    compared: list[tuple[Tensor, Tensor]] = [
        (law_of(three), law_of(one))
        for law_of in (
            lambda law: law.mean,
            lambda law: law.variance,
            lambda law: law.quantiles([0.2])[0],
            lambda law: law.crps(targets),
            lambda law: law.log_density(targets),
        )
    ]
    for found, expected in compared:
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert three.epistemic.flatten().tolist() == pytest.approx([0.0] * 6, abs=1e-25)
