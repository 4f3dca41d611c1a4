"""Gaussian prior: `R₁(θ) = ½‖θ‖²`, the Bayesian reading of weight decay."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sparsemble.priors.prior import ElementwisePrior


class Gaussian(ElementwisePrior):
    """`p(θ) ∝ exp(−½·rate·‖θ‖²)` on every weight.

    >>> Gaussian(penalty=1e-4).rate(num_data=60_000)
    6.0
    """

    kind: Literal["gaussian"] = "gaussian"

    @staticmethod
    def term(weight: Tensor) -> Tensor:
        """Half the squared norm."""
        return weight.square().sum() / 2

    @staticmethod
    def slopes(weights: list[Tensor]) -> list[Tensor]:
        """The weights themselves."""
        return weights

    def shrink(self, weights: list[Tensor], amount: float) -> None:
        """Divided by `1 + amount`."""
        torch._foreach_div_(weights, 1 + amount)
