"""Mixtures of normal laws with equal weights: what members that each predict one predict together.

Means and variances are `(examples, members, targets)`; every target has a mixture of its own.
Scores are exact, in closed form where there is one, quantiles by iteration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_STEPS = 100
"""Towards a quantile at most; ten are usual."""


@dataclass(frozen=True)
class Mixture:
    """One mixture per example and target."""

    means: Tensor
    variances: Tensor

    @property
    def mean(self) -> Tensor:
        """`(examples, targets)`."""
        return self.means.mean(1)

    @property
    def aleatoric(self) -> Tensor:
        """The variance that the members see themselves, on average."""
        return self.variances.mean(1)

    @property
    def epistemic(self) -> Tensor:
        """The variance of their means."""
        return self.means.var(1, correction=0)

    @property
    def variance(self) -> Tensor:
        """Both parts together."""
        return self.aleatoric + self.epistemic

    def log_density(self, targets: Tensor) -> Tensor:
        """Of each example's targets together, which are independent within a member."""
        away = (targets.unsqueeze(1) - self.means).square() / self.variances
        each = -0.5 * (away + self.variances.log() + math.log(2 * math.pi))
        return each.sum(-1).logsumexp(1) - math.log(self.means.shape[1])

    def cdf(self, targets: Tensor) -> Tensor:
        """The probability of less, `(…, examples, targets)`."""
        return _normal_cdf(self._scaled(targets)).mean(-2)

    def _density(self, targets: Tensor) -> Tensor:
        """Of each target by itself."""
        parts = (-0.5 * self._scaled(targets).square()).exp() / self.variances.sqrt()
        return parts.mean(-2) / math.sqrt(2 * math.pi)

    def _scaled(self, targets: Tensor) -> Tensor:
        return (targets.unsqueeze(-2) - self.means) / self.variances.sqrt()

    def quantiles(self, probabilities: Sequence[float]) -> Tensor:
        """Below which a value lies with these probabilities, `(probabilities, examples, targets)`.

        Each lies between the members' own.

        By Newton's method, and by bisection where that would leave the bracket or hardly move.
        """
        wanted = self.means.new_tensor(probabilities).view(-1, 1, 1)
        normal: Tensor = torch.special.ndtri(wanted).unsqueeze(2)
        own = self.means + self.variances.sqrt() * normal
        low, high = own.amin(2), own.amax(2)
        found = (low + high) / 2
        moved = high - low
        rounding = 4 * torch.finfo(found.dtype).eps
        close = rounding * torch.maximum(low.abs(), high.abs())
        for _ in range(_STEPS):
            excess = self.cdf(found) - wanted
            low = torch.where(excess < 0, found, low)
            high = torch.where(excess < 0, high, found)
            newton = found - excess / self._density(found)
            fine = (newton >= low) & (newton <= high) & (2 * (newton - found).abs() <= moved)
            following = torch.where(fine, newton, (low + high) / 2)
            # What has been found stays: rounding would send it astray.
            settled = (moved <= close) | (excess.abs() <= rounding)
            following = torch.where(settled, found, following)
            moved, found = (following - found).abs(), following
            if bool((moved <= close).all()):
                break
        return found

    def interval(self, level: float) -> tuple[Tensor, Tensor]:
        """The central interval that holds a value with this probability."""
        low, high = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def crps(self, targets: Tensor) -> Tensor:
        """The continuous ranked probability score, `(examples, targets)` (Grimit et al. 2006)."""
        own = _expected_distance(targets.unsqueeze(1) - self.means, self.variances).mean(1)
        gaps = self.means.unsqueeze(1) - self.means.unsqueeze(2)
        sums = self.variances.unsqueeze(1) + self.variances.unsqueeze(2)
        return own - _expected_distance(gaps, sums).mean((1, 2)) / 2


def _expected_distance(mean: Tensor, variance: Tensor) -> Tensor:
    """`E|X|` of a normal law."""
    deviation = variance.sqrt()
    scaled = mean / deviation
    density = (-0.5 * scaled.square()).exp() / math.sqrt(2 * math.pi)
    return 2 * deviation * density + mean * (2 * _normal_cdf(scaled) - 1)


def _normal_cdf(values: Tensor) -> Tensor:
    # `torch.special.ndtr` gives the same in twice the time.
    return torch.erfc(values * -math.sqrt(0.5)) / 2
