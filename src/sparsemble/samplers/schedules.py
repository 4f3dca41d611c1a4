"""Schedules: the learning rate as a pure function of the time in epochs (a fraction is allowed)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, computed_field

from sparsemble.errors import InputError
from sparsemble.extensions import import_path, open_union
from sparsemble.settings import LARGEST, Count, Factor, Positive, Settings

_MOST_CYCLES = 1_000_000
_ROUNDING = 1e-12
"""What the sum of several cycles may be off."""


class Schedule(Settings, ABC):
    """A learning rate over time."""

    def __init_subclass__(cls, **how: Any) -> None:
        super().__init_subclass__(**how)
        if "__call__" in vars(cls):
            cls.__call__ = _checked(cls.__call__)  # type: ignore[assignment,method-assign]

    @abstractmethod
    def __call__(self, epoch: float) -> float:
        """The rate at a time, in epochs since the start."""


def _checked(rate_at: Callable[[Any, float], Any]) -> Callable[[Any, float], float]:
    """A schedule may be the user's, and what it returns anything at all."""

    @wraps(rate_at)
    def checked(schedule: Schedule, epoch: float) -> float:
        rate = rate_at(schedule, epoch)
        try:
            is_rate = math.isfinite(rate) and rate >= 0
        except (TypeError, ValueError, RuntimeError):  # what is no number, or several
            is_rate = False
        if not is_rate:
            raise InputError(
                f"the schedule {_title(schedule)} gives {rate!r} at epoch {epoch:g}: the learning "
                "rate must be a finite number, 0 or more"
            )
        return float(rate)

    return checked


class Constant(Schedule):
    """The same rate throughout: the paper's choice for SGLD."""

    kind: Literal["constant"] = "constant"
    lr: Positive
    """The learning rate, at the start."""

    def __call__(self, epoch: float) -> float:
        """The rate."""
        return self.lr


class Polynomial(Schedule):
    """Welling & Teh's annealing `a(b + t)^−γ`, written with the initial rate: `lr·(1+t/b)^−γ`."""

    kind: Literal["polynomial"] = "polynomial"
    lr: Positive
    """The learning rate, at the start."""
    delay: Positive = 1.0
    """Epochs before it falls."""
    power: Annotated[float, Field(gt=0.5, le=1)] = 0.55
    """How fast it falls."""

    def __call__(self, epoch: float) -> float:
        """The annealed rate."""
        return float(self.lr * (1 + epoch / self.delay) ** -self.power)


class Cyclical(Schedule):
    """Cosine from `lr` down to `lr·floor`, again and again (Zhang et al. 2020)."""

    kind: Literal["cyclical"] = "cyclical"
    lr: Positive
    """The learning rate, at the start."""
    period: Annotated[float, Field(ge=0.01, le=LARGEST, allow_inf_nan=False)]
    """Epochs of a cycle, the first if they grow."""
    growth: Annotated[float, Field(ge=1, le=100)] = 1.0
    """How many times as long a cycle is as the one before."""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the rate at a cycle's end."""

    def ends(self, epochs: float) -> list[float]:
        """When the cycles end that are complete after so many epochs."""
        if epochs / self.period > _MOST_CYCLES and self.growth == 1:
            raise InputError(
                f"period = {self.period:g}: {epochs:g} epochs would be {epochs / self.period:.3g} "
                f"cycles, more than {_MOST_CYCLES:,}; make it longer"
            )
        found: list[float] = []
        while (end := self._end(len(found) + 1)) <= epochs * (1 + _ROUNDING):
            found.append(end)
        return found

    def _end(self, cycles: int) -> float:
        if self.growth == 1:
            return cycles * self.period
        return self.period * (self.growth**cycles - 1) / (self.growth - 1)

    def _cycle(self, epoch: float) -> int:
        """How many cycles came before."""
        if self.growth == 1:
            number = int(epoch / self.period)
        else:
            number = int(
                math.log1p(epoch / self.period * (self.growth - 1)) / math.log(self.growth)
            )
        return number + (epoch >= self._end(number + 1) * (1 - _ROUNDING))

    def __call__(self, epoch: float) -> float:
        """The rate within the current cycle."""
        number = self._cycle(epoch)
        began = self._end(number)
        phase = max(epoch - began, 0) / (self._end(number + 1) - began)
        swing = (1 + math.cos(math.pi * phase)) / 2
        return self.lr * (self.floor + (1 - self.floor) * swing)


class Step(Schedule):
    """Divided by `factor` every `every` epochs."""

    kind: Literal["step"] = "step"
    lr: Positive
    """The learning rate, at the start."""
    factor: Factor = 2.0
    """What the rate is divided by."""
    every: Count = 10
    """Epochs between divisions."""

    def __call__(self, epoch: float) -> float:
        """The rate of the current plateau."""
        return float(self.lr * self.factor ** -(int(epoch) // self.every))


class Exponential(Schedule):
    """Divided by `factor` after every epoch, from the end of the `hold`-th on."""

    kind: Literal["exponential"] = "exponential"
    lr: Positive
    """The learning rate, at the start."""
    factor: Factor
    """What the rate is divided by, every epoch."""
    hold: Count = 1
    """Epochs before the first division."""

    def __call__(self, epoch: float) -> float:
        """The rate of the current epoch."""
        return float(self.lr * self.factor ** -max(int(epoch) + 1 - self.hold, 0))


class FunctionSchedule(Schedule):
    """A plain function of the time in epochs."""

    function: Callable[[float], float] = Field(exclude=True)

    def __call__(self, epoch: float) -> float:
        """What the function says."""
        return self.function(epoch)

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def kind(self) -> str:
        """Where the function is found."""
        return import_path(self.function)


def _title(schedule: Schedule) -> str:
    """What messages call a schedule."""
    if isinstance(schedule, FunctionSchedule):
        return getattr(schedule.function, "__qualname__", repr(schedule.function))
    return type(schedule).__name__


def schedule_of(function: Callable[[float], float]) -> Schedule:
    """A function as a schedule."""
    return FunctionSchedule(function=function)


def _beginning(schedule: Schedule) -> Schedule:
    """A schedule that cannot even begin is refused where it is set, not when the chain begins."""
    try:
        schedule(0)
    except InputError:
        raise
    except Exception as error:  # the user's function may raise anything
        what = f"{type(error).__name__}: {error}"
        raise InputError(f"the schedule {_title(schedule)} fails at epoch 0: {what}") from error
    return schedule


if TYPE_CHECKING:
    AnySchedule = Schedule
else:
    AnySchedule = Annotated[
        open_union(
            Schedule, Constant, Polynomial, Cyclical, Step, Exponential, from_function=schedule_of
        ),
        AfterValidator(_beginning),
    ]
