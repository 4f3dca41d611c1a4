"""SG-MCMC samplers as `torch.optim.Optimizer`s, and the schedules of their rates.

All work in the mean-loss scale: `loss.backward()` of a mini-batch mean, so a learning rate means
what it means in SGD. `num_data` and `temperature` are explicit; temperature 0 is the optimiser.
"""

from sparsemble.samplers.noise import NoiseKind, NoiseSource
from sparsemble.samplers.psgld import PSGLD
from sparsemble.samplers.sampler import Sampler
from sparsemble.samplers.schedules import (
    AnySchedule,
    Constant,
    Cyclical,
    Exponential,
    Polynomial,
    Schedule,
    Step,
)
from sparsemble.samplers.sghmc import SGHMC
from sparsemble.samplers.sgld import SGLD
from sparsemble.samplers.spec import SamplerKind, SamplerSettings

__all__ = [
    "PSGLD",
    "SGHMC",
    "SGLD",
    "AnySchedule",
    "Constant",
    "Cyclical",
    "Exponential",
    "NoiseKind",
    "NoiseSource",
    "Polynomial",
    "Sampler",
    "SamplerKind",
    "SamplerSettings",
    "Schedule",
    "Step",
]
