"""Input scaling: `(x − shift)·factor`, kept with the ensemble, so that it takes raw inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Scaling:
    """An affine map of the inputs, elementwise; `shift` and `factor` broadcast against them."""

    shift: Tensor
    factor: Tensor

    @classmethod
    def by(cls, factor: float) -> Scaling:
        """Multiply by a constant: `Scaling.by(1 / 255)` for pixel bytes."""
        return cls(torch.zeros(()), torch.tensor(factor))

    @classmethod
    def none(cls) -> Scaling:
        """Leave the inputs as they are."""
        return cls.by(1.0)

    @classmethod
    def standard(cls, inputs: Tensor) -> Scaling:
        """Mean 0 and variance 1 for every feature; constant features only lose their mean."""
        inputs = inputs.float()
        # The deviation of a constant feature is not exactly 0: its mean is rounded.
        varies = inputs.amax(0) > inputs.amin(0)
        factor = torch.where(varies, 1 / inputs.std(0, correction=0), 1.0)
        return cls(inputs.mean(0), factor)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scaled inputs as floats."""
        dtype = inputs.dtype if inputs.is_floating_point() else self.factor.dtype
        inputs = inputs.to(dtype)
        if self.is_identity:
            return inputs
        shift, factor = self.shift.to(inputs), self.factor.to(inputs)
        return (inputs - shift) * factor

    @property
    def is_identity(self) -> bool:
        """Does it change nothing?"""
        return not bool(self.shift.any()) and bool((self.factor == 1).all())
