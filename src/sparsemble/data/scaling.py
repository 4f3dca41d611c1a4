"""Affine scaling of inputs and targets, kept with the ensemble, so that it takes raw values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sparsemble.data.arguments import Arguments, Inputs
from sparsemble.modes import is_captured

_OF_A_KIND = 20.0
"""How many times as wide as others the ranges of features may be that are of a kind."""
_USUAL = 10.0
"""Values up to here need no scaling."""


class Scaling(nn.Module):
    """`(x − shift)·factor`, elementwise; both broadcast against the values and are buffers."""

    shift: Tensor
    factor: Tensor

    def __init__(self, shift: Tensor, factor: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("factor", factor)

    @property
    def is_identity(self) -> bool:
        """Does it change nothing? Asked anew every time: a loaded state may bring other buffers."""
        return not _is_other(self.shift, 0.0) and not _is_other(self.factor, 1.0)

    @classmethod
    def by(cls, factor: float) -> Scaling:
        """Multiply by a constant: `Scaling.by(1 / 255)` for pixel bytes."""
        return cls(torch.zeros(()), torch.tensor(factor))

    @classmethod
    def none(cls) -> Scaling:
        """Leave values as they are."""
        return cls.by(1.0)

    @classmethod
    def standard(cls, values: Tensor) -> Scaling:
        """Mean 0 and variance 1 for every feature; constant features only lose their mean."""
        values = values if values.dtype == torch.float64 else values.float()
        # The deviation of a constant feature is not exactly 0: its mean is rounded.
        varies = values.amax(0) > values.amin(0)
        factor = torch.where(varies, 1 / values.std(0, correction=0), 1.0)
        return cls(values.mean(0), factor)

    @classmethod
    def fitting(cls, values: Tensor) -> Scaling:
        """What values need to be of a usual size: nothing, one scale for all, or one per feature.

        Features of a kind, as the pixels of an image, keep their proportions: those whose ranges
        are alike and mostly begin at the same value, as dark does.

        >>> generator = torch.Generator().manual_seed(0)
        >>> pixels = torch.rand(50, 4, generator=generator).round(decimals=1)
        >>> Scaling.fitting(pixels).is_identity
        True
        >>> Scaling.fitting(255 * pixels).factor.ndim
        0
        >>> Scaling.fitting(pixels + torch.tensor([0.0, 5.0, 9.0, -2.0])).factor.shape
        torch.Size([4])
        """
        values = values if values.is_floating_point() else values.float()
        least = values.amin(0).flatten()
        ranges = values.amax(0).flatten() - least
        varies = ranges > 0
        least, ranges = least[varies], ranges[varies]
        if not len(ranges):
            return cls.none()
        usual = int(least.unique(return_counts=True)[1].max()) > len(least) / 2
        together = usual or values.ndim > 2  # pictures, sequences
        if not together or float(_at(ranges, 0.9) / _at(ranges, 0.1)) > _OF_A_KIND:
            return cls.standard(values)
        varying = values.flatten(1)[:, varies]
        if float(values.abs().max()) <= _USUAL:
            return cls.none()
        if float(varying.abs().max()) < float(values.abs().max()):
            return cls.standard(values)  # something large that says nothing
        return cls(varying.mean(), 1 / varying.std(correction=0))

    def fits(self, shape: Sequence[int] | None) -> bool:
        """Can values of this shape, if it is known, be scaled there and back?"""
        both = (self.shift, self.factor)
        if not all(own.is_floating_point() and bool(own.isfinite().all()) for own in both):
            return False
        wide = shape is None or all(_spreads(own.shape, shape) for own in both)
        return wide and bool((self.factor != 0).all())

    def same_as(self, other: Scaling) -> bool:
        """Do both change values in the same way?"""
        return torch.equal(self.shift, other.shift) and torch.equal(self.factor, other.factor)

    def forward(self, values: Inputs) -> Inputs:
        """Scaled values as floats; of several inputs none is scaled."""
        if isinstance(values, Arguments):
            return values
        dtype = values.dtype if values.is_floating_point() else self.factor.dtype
        values = values.to(dtype)
        shift, factor = self.shift, self.factor
        if is_captured():
            return (values - shift.to(values)) * factor.to(values)
        if _is_other(shift, 0.0):
            values = values - shift.to(values)
        return values * factor.to(values) if _is_other(factor, 1.0) else values

    def undo(self, values: Tensor) -> Tensor:
        """From scaled values back to raw ones."""
        return values / self.factor.to(values) + self.shift.to(values)

    def undo_variance(self, variances: Tensor) -> Tensor:
        """From variances of scaled values to those of raw ones."""
        return variances / self.factor.to(variances).square()


def _is_other(values: Tensor, number: float) -> bool:
    """Is any of the values another number? Asked at every prediction: one value is quickly told."""
    return values.item() != number if values.ndim == 0 else bool((values != number).any())


def _spreads(own: Sequence[int], shape: Sequence[int]) -> bool:
    """Does a tensor of the one shape broadcast to the other?"""
    ending = shape[len(shape) - len(own) :] if len(own) <= len(shape) else ()
    return len(own) == len(ending) and all(
        n in (1, wanted) for n, wanted in zip(own, ending, strict=True)
    )


def _at(values: Tensor, share: float) -> Tensor:
    """The value below which a share of them lies; a large tensor's quantile torch refuses."""
    return values.sort().values[round(share * (len(values) - 1))]
