"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014).

    v ← (1−α)v − η·∇L̃(θ) + √(2αηT/N)·ξ,   θ ← θ + v

targets `p(θ|D)^(1/T)` as η → 0, with friction α. At T = 0 it is SGD with momentum 1−α.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.samplers.noise import NoiseSource
from sparsemble.samplers.sampler import Common, Sampler, SamplerSettings


class SGHMC(Sampler):
    """SGHMC as an optimiser."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        *,
        friction: float = 0.1,
        **common: Unpack[Common],
    ) -> None:
        if not 0 < friction <= 1:
            raise InputError(f"friction = {friction}: must be above 0 and at most 1")
        super().__init__(params, lr, friction=friction, **common)

    def update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], source: NoiseSource
    ) -> None:
        """Friction, drift and noise change the velocity, which moves the parameters."""
        velocity = self._buffers(params, "velocity")
        torch._foreach_mul_(velocity, 1 - group["friction"])
        torch._foreach_add_(velocity, grads, alpha=-group["lr"])
        if group["temperature"] > 0:
            scale = self.noise_scale(group)
            torch._foreach_add_(velocity, source.draw(params), alpha=scale)
        torch._foreach_add_(params, velocity)

    def drift(self, group: dict[str, Any]) -> float:
        """η/α: the velocity adds up."""
        return float(group["lr"] / group["friction"])

    def noise_scale(self, group: dict[str, Any]) -> float:
        """Standard deviation of the noise one step adds to the velocity: √(2αηT/N)."""
        return math.sqrt(group["friction"]) * super().noise_scale(group)


class SGHMCSettings(SamplerSettings):
    """SGHMC in a recipe."""

    sampler: ClassVar[type[Sampler]] = SGHMC
    kind: Literal["sghmc"] = "sghmc"
    friction: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the velocity that is lost in a step."""
