"""Affine scaling of inputs and targets, kept with the ensemble, so that it takes raw values."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
        return not bool(self.shift.any()) and bool((self.factor == 1).all())

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

    def same_as(self, other: Scaling) -> bool:
        """Do both change values in the same way?"""
        return torch.equal(self.shift, other.shift) and torch.equal(self.factor, other.factor)

    def forward(self, values: Tensor) -> Tensor:
        """Scaled values as floats."""
        dtype = values.dtype if values.is_floating_point() else self.factor.dtype
        values = values.to(dtype)
        if self.is_identity:
            return values
        return (values - self.shift.to(values)) * self.factor.to(values)

    def undo(self, values: Tensor) -> Tensor:
        """From scaled values back to raw ones."""
        return values / self.factor.to(values) + self.shift.to(values)

    def undo_variance(self, variances: Tensor) -> Tensor:
        """From variances of scaled values to those of raw ones."""
        return variances / self.factor.to(variances).square()
