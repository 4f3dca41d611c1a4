"""Which sampler a chain uses, as a setting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from sparsemble.samplers.noise import NoiseKind
from sparsemble.samplers.psgld import PSGLD
from sparsemble.samplers.sampler import Sampler
from sparsemble.samplers.sghmc import SGHMC
from sparsemble.samplers.sgld import SGLD
from sparsemble.settings import Positive, Settings

SamplerKind = Literal["sgld", "psgld", "sghmc"]


class SamplerSettings(Settings):
    """A sampler, its temperature and its noise."""

    kind: SamplerKind = "sgld"
    """The update."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """1 samples the posterior, 0 is plain optimisation."""
    noise: NoiseKind = "gaussian"
    """Gaussian, or ±1, which is faster."""
    friction: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Of sghmc."""
    smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Of psgld: memory of the squared gradients."""
    damping: Positive = 1e-5
    """Of psgld: added to their root."""

    def build(self, params: Iterable[Tensor], *, lr: float, num_data: int, seed: int) -> Sampler:
        """The sampler on `params`."""
        temperature, noise = self.temperature, self.noise
        if self.kind == "sghmc":
            return SGHMC(
                params,
                lr,
                num_data=num_data,
                temperature=temperature,
                friction=self.friction,
                noise=noise,
                seed=seed,
            )
        if self.kind == "psgld":
            return PSGLD(
                params,
                lr,
                num_data=num_data,
                temperature=temperature,
                smoothing=self.smoothing,
                damping=self.damping,
                noise=noise,
                seed=seed,
            )
        return SGLD(params, lr, num_data=num_data, temperature=temperature, noise=noise, seed=seed)
