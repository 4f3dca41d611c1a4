"""Preconditioned SGLD (Li et al. 2016), with an RMSprop preconditioner.

    V ← βV + (1−β)(∇L̃)²,   G = 1/(√V + δ)
    θ ← θ − ηG·∇L̃(θ) + √(2ηTG/N)·ξ

The correction term Γ is omitted, as its authors do in practice, so the law is approximate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Unpack

import torch
from pydantic import Field
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.samplers.noise import NoiseSource
from sparsemble.samplers.sampler import Common, Sampler, SamplerSettings
from sparsemble.settings import Positive


class PSGLD(Sampler):
    """Preconditioned SGLD as an optimiser."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        *,
        smoothing: float = 0.99,
        damping: float = 1e-5,
        **common: Unpack[Common],
    ) -> None:
        if not 0 <= smoothing < 1:
            raise InputError(f"smoothing = {smoothing}: must be at least 0 and below 1")
        if not damping > 0:
            raise InputError(f"damping = {damping}: must be positive")
        super().__init__(params, lr, smoothing=smoothing, damping=damping, **common)

    def update(
        self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], source: NoiseSource
    ) -> None:
        """Drift and noise, each scaled by the preconditioner."""
        squares = self._buffers(params, "square_average")
        torch._foreach_mul_(squares, group["smoothing"])
        torch._foreach_addcmul_(squares, grads, grads, value=1 - group["smoothing"])
        inverse = torch._foreach_sqrt(squares)
        torch._foreach_add_(inverse, group["damping"])
        torch._foreach_addcdiv_(params, grads, inverse, value=-group["lr"])
        if group["temperature"] > 0:
            torch._foreach_sqrt_(inverse)
            scale = self.noise_scale(group)
            torch._foreach_addcdiv_(params, source.draw(params), inverse, value=scale)

    def _preconditioner(self, group: dict[str, Any], param: Tensor) -> Tensor | float:
        """`1/(√V + δ)`."""
        average: Tensor | None = self.state[param].get("square_average")
        return 1.0 if average is None else 1 / (average.sqrt() + group["damping"])


class PSGLDSettings(SamplerSettings):
    """Preconditioned SGLD in a recipe."""

    sampler: ClassVar[type[Sampler]] = PSGLD
    kind: Literal["psgld"] = "psgld"
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Memory of the squared gradients."""
    damping: Positive = 1e-5
    """Added to their root."""
