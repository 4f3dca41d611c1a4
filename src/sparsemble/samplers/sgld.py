"""Stochastic gradient Langevin dynamics (Welling & Teh 2011; the paper's Eq. 2-3).

    θ ← θ − η·∇L̃(θ) + √(2ηT/N)·ξ,   ξ ~ N(0, I)

targets `p(θ|D)^(1/T)` as η → 0. It is Eq. 3 with ε = 2η/N. At T = 0 it is `torch.optim.SGD`, bit
for bit.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from sparsemble.samplers.noise import NoiseSource
from sparsemble.samplers.sampler import Sampler, SamplerSettings


class SGLD(Sampler):
    """SGLD as an optimiser.

    >>> import torch
    >>> theta = torch.nn.Parameter(torch.zeros(3))
    >>> sampler = SGLD([theta], lr=0.1, num_data=100, temperature=1.0)
    >>> (0.5 * theta.square().sum()).backward()
    >>> sampler.step()
    """

    def update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], source: NoiseSource
    ) -> None:
        """Drift, then noise."""
        torch._foreach_add_(params, grads, alpha=-group["lr"])
        if group["temperature"] > 0:
            scale = self.noise_scale(group)
            torch._foreach_add_(params, source.draw(params), alpha=scale)

    def drift(self, group: dict[str, Any]) -> float:
        """η."""
        return float(group["lr"])


class SGLDSettings(SamplerSettings):
    """SGLD in a recipe."""

    sampler: ClassVar[type[Sampler]] = SGLD
    kind: Literal["sgld"] = "sgld"
