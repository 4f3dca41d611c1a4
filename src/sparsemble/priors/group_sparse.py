"""Group sparse prior (Eq. 5-7): `R₁(θ) = Σ_g √dim_g·‖θ_g‖₂` over the layout's group families."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from sparsemble.priors.prior import BoundPrior, StrengthPrior
from sparsemble.structure import GroupTerms, Layout

_SMALL = 0.05
"""The share of a family's largest norm below which a group can be done without."""


class GroupSparse(StrengthPrior):
    """`p(θ) ∝ exp(−rate·Σ_g √dim_g·‖θ_g‖₂)`; overlapping groups add."""

    kind: Literal["group-sparse"] = "group-sparse"

    def bind(
        self,
        layout: Layout,
        parameters: Mapping[str, Tensor],
        *,
        sizes: Mapping[str, int] | None = None,
        batch_dims: int = 0,
    ) -> BoundPrior:
        """Attach to the layout's families."""
        terms = GroupTerms(layout, parameters, sizes=sizes, batch_dims=batch_dims)
        return BoundGroupSparse(terms, self.penalty)

    @property
    def group_penalty(self) -> float:
        """λ itself."""
        return self.penalty


def near_zero_width(penalty: float, temperature: float, num_data: int, step: float) -> float:
    """The norm per √dimension below which the prior holds a group near zero: `3·max(T/(Nλ), hλ)`.

    The first is the width of the prior's peak at a temperature, the second how far a `step` h of
    the prior takes it.
    """
    return 3 * max(temperature / (num_data * penalty), step * penalty)


class BoundGroupSparse(BoundPrior):
    """The group sparse prior on one network's weights."""

    def __init__(self, terms: GroupTerms, penalty: float) -> None:
        self.terms = terms
        self.penalty = penalty

    def value(self) -> Tensor:
        """The penalty `λ·Σ_g √dim_g·‖θ_g‖₂`."""
        return self.terms.penalty() * self.penalty

    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        """Add `λ·√dim_g·θ_g/‖θ_g‖₂` (Eq. 6)."""
        if self.penalty:
            self.terms.add_gradient(gradients, self.penalty)

    def shrink(self, step: float) -> None:
        """Multiply every group by `max(0, 1 − step·λ·√dim_g/‖θ_g‖₂)`."""
        if self.penalty:
            with torch.no_grad():
                self.terms.shrink(step * self.penalty)

    def at_zero(self, *, temperature: float, num_data: int, step: float) -> dict[str, Tensor]:
        """Those whose norm lies within `near_zero_width`."""
        if self.penalty == 0:
            return {}
        width = near_zero_width(self.penalty, temperature, num_data, step)
        return {
            family.name: norms < width * math.sqrt(self.terms.sizes[family.name])
            for family, norms in zip(self.terms.families, self.terms.norms(), strict=True)
        }

    def idle(self, *, temperature: float, num_data: int, step: float) -> dict[str, Tensor]:
        """Those at zero that are also small beside the largest of their family.

        Where the noise is strong or the prior weak, the near-zero width says nothing.
        """
        found = self.at_zero(temperature=temperature, num_data=num_data, step=step)
        for family, norms in zip(self.terms.families, self.terms.norms(), strict=True):
            if family.name in found and norms.numel():
                found[family.name] &= norms <= _SMALL * norms.amax(-1, keepdim=True)
        return found
