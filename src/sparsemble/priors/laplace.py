"""Laplace prior: `R₁(θ) = ‖θ‖₁`, the Bayesian reading of L1 regularisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from sparsemble.priors.prior import BoundPrior, StrengthPrior
from sparsemble.structure import Layout


class Laplace(StrengthPrior):
    """`p(θ) ∝ exp(−rate·‖θ‖₁)` on every weight; the sub-gradient at 0 is 0."""

    kind: Literal["laplace"] = "laplace"

    def bind(self, layout: Layout, parameters: Mapping[str, Tensor], **_: Any) -> BoundPrior:
        """Attach to the layout's weights."""
        return _BoundLaplace({name: parameters[name] for name in layout.weights}, self.penalty)


class _BoundLaplace(BoundPrior):
    def __init__(self, weights: dict[str, Tensor], penalty: float) -> None:
        self.weights = weights
        self.penalty = penalty

    def value(self) -> Tensor:
        return torch.stack([w.abs().sum() for w in self.weights.values()]).sum() * self.penalty

    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        targets = [gradients[name] for name in self.weights]
        signs = torch._foreach_sign(list(self.weights.values()))
        torch._foreach_add_(targets, signs, alpha=self.penalty)
