"""Laplace prior: `R₁(θ) = ‖θ‖₁`, the Bayesian reading of L1 regularisation."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sparsemble.priors.prior import ElementwisePrior


class Laplace(ElementwisePrior):
    """`p(θ) ∝ exp(−rate·‖θ‖₁)` on every weight; the sub-gradient at 0 is 0."""

    kind: Literal["laplace"] = "laplace"

    @staticmethod
    def term(weight: Tensor) -> Tensor:
        """The sum of absolute values."""
        return weight.abs().sum()

    @staticmethod
    def slopes(weights: list[Tensor]) -> list[Tensor]:
        """The signs."""
        return list(torch._foreach_sign(weights))

    def shrink(self, weights: list[Tensor], amount: float) -> None:
        """Towards zero by `amount`, and no further."""
        for weight in weights:
            weight.copy_(torch.nn.functional.softshrink(weight, amount))
