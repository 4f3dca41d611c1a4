"""Schedules: the learning rate as a pure function of the time in epochs (a fraction is allowed)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, Literal

from pydantic import Field

from sparsemble.settings import Positive, Settings

Factor = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class Schedule(Settings, ABC):
    """A learning rate over time."""

    @abstractmethod
    def __call__(self, epoch: float) -> float:
        """The rate at a time, in epochs since the start."""


class Constant(Schedule):
    """The same rate throughout: the paper's choice for SGLD."""

    kind: Literal["constant"] = "constant"
    rate: Positive
    """The learning rate, at the start."""

    def __call__(self, epoch: float) -> float:
        """The rate."""
        return self.rate


class Polynomial(Schedule):
    """Welling & Teh's annealing `a(b + t)^−γ`, written with the initial rate: `rate·(1+t/b)^−γ`."""

    kind: Literal["polynomial"] = "polynomial"
    rate: Positive
    """The learning rate, at the start."""
    delay: Positive = 1.0
    """Epochs before it falls."""
    power: Annotated[float, Field(gt=0.5, le=1)] = 0.55
    """How fast it falls."""

    def __call__(self, epoch: float) -> float:
        """The annealed rate."""
        return float(self.rate * (1 + epoch / self.delay) ** -self.power)


class Cyclical(Schedule):
    """Cosine from `rate` down to `rate·floor`, anew every `period` epochs (Zhang et al. 2020)."""

    kind: Literal["cyclical"] = "cyclical"
    rate: Positive
    """The learning rate, at the start."""
    period: Positive
    """Epochs of a cycle."""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the rate at a cycle's end."""

    def __call__(self, epoch: float) -> float:
        """The rate within the current cycle."""
        phase = (epoch % self.period) / self.period
        swing = (1 + math.cos(math.pi * phase)) / 2
        return self.rate * (self.floor + (1 - self.floor) * swing)


class Step(Schedule):
    """Divided by `factor` every `every` epochs."""

    kind: Literal["step"] = "step"
    rate: Positive
    """The learning rate, at the start."""
    factor: Factor = 2.0
    """What the rate is divided by."""
    every: Annotated[int, Field(ge=1)] = 10
    """Epochs between divisions."""

    def __call__(self, epoch: float) -> float:
        """The rate of the current plateau."""
        return float(self.rate * self.factor ** -(int(epoch) // self.every))


class Exponential(Schedule):
    """Divided by `factor` after every epoch, from the end of the `hold`-th on."""

    kind: Literal["exponential"] = "exponential"
    rate: Positive
    """The learning rate, at the start."""
    factor: Factor
    """What the rate is divided by, every epoch."""
    hold: Annotated[int, Field(ge=1)] = 1
    """Epochs before the first division."""

    def __call__(self, epoch: float) -> float:
        """The rate of the current epoch."""
        return float(self.rate * self.factor ** -max(int(epoch) + 1 - self.hold, 0))


AnySchedule = Annotated[
    Constant | Polynomial | Cyclical | Step | Exponential, Field(discriminator="kind")
]
