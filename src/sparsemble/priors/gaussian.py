"""Gaussian prior: `R₁(θ) = ½‖θ‖²`, the Bayesian reading of weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from sparsemble.priors.prior import BoundPrior, StrengthPrior
from sparsemble.structure import Layout


class Gaussian(StrengthPrior):
    """`p(θ) ∝ exp(−½·rate·‖θ‖²)` on every weight.

    >>> Gaussian(penalty=1e-4).rate(num_data=60_000)
    6.0
    """

    kind: Literal["gaussian"] = "gaussian"

    def bind(self, layout: Layout, parameters: Mapping[str, Tensor], **_: Any) -> BoundPrior:
        """Attach to the layout's weights."""
        return _BoundGaussian({name: parameters[name] for name in layout.weights}, self.penalty)


class _BoundGaussian(BoundPrior):
    def __init__(self, weights: dict[str, Tensor], penalty: float) -> None:
        self.weights = weights
        self.penalty = penalty

    def value(self) -> Tensor:
        return torch.stack([w.square().sum() for w in self.weights.values()]).sum() * (
            self.penalty / 2
        )

    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        targets = [gradients[name] for name in self.weights]
        torch._foreach_add_(targets, list(self.weights.values()), alpha=self.penalty)
