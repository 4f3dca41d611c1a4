"""SG-MCMC samplers as `torch.optim.Optimizer`s, and the schedules of their learning rates.

All work in the mean-loss scale: `loss.backward()` of a mini-batch mean, so a learning rate means
what it means in SGD. `num_data` and `temperature` are explicit; temperature 0 is the optimiser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparsemble.extensions import open_union
from sparsemble.samplers.noise import NoiseKind, NoiseSource
from sparsemble.samplers.psgld import PSGLD, PSGLDSettings
from sparsemble.samplers.sampler import Sampler, SamplerSettings
from sparsemble.samplers.schedules import (
    AnySchedule,
    Constant,
    Cyclical,
    Exponential,
    Polynomial,
    Schedule,
    Step,
)
from sparsemble.samplers.sghmc import SGHMC, SGHMCSettings
from sparsemble.samplers.sgld import SGLD, SGLDSettings

if TYPE_CHECKING:
    AnySampler = SamplerSettings
else:
    AnySampler = open_union(
        SamplerSettings, SGLDSettings, PSGLDSettings, SGHMCSettings, default="sgld"
    )

__all__ = [
    "PSGLD",
    "SGHMC",
    "SGLD",
    "AnySampler",
    "AnySchedule",
    "Constant",
    "Cyclical",
    "Exponential",
    "NoiseKind",
    "NoiseSource",
    "PSGLDSettings",
    "Polynomial",
    "SGHMCSettings",
    "SGLDSettings",
    "Sampler",
    "SamplerSettings",
    "Schedule",
    "Step",
]
