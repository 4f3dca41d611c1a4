"""Axes: round ticks, and the way from a value to a place on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_FLAT = 1e-5
"""Values that differ by less of their size are drawn as one: their ticks would read the same."""
_ENDLESS = 1e300
"""No axis reaches further: beyond it there is no room for round numbers."""


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` lie at places from `start` to `end`; evenly, or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value; by logarithm one that has none lies where the axis begins."""
        low, high, own = (
            (math.log(v) for v in (self.low, self.high, value if value > 0 else self.low))
            if self.log
            else (self.low, self.high, value)
        )
        return self.start + (self.end - self.start) * (own - low) / (high - low)


def axis(
    values: Iterable[float],
    start: float,
    end: float,
    *,
    low: float | None = None,
    high: float | None = None,
    most: int = 6,
) -> Axis:
    """An axis for finite values, widened to round limits; `low` and `high` fix an end.

    >>> axis([0.3, 9.1], 0, 100).ticks
    (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
    """
    finite = [value for value in values if abs(value) < _ENDLESS] or [0.0, 1.0]
    bottom = min(finite) if low is None else low
    top = max(finite) if high is None else high
    if top - bottom < _FLAT * max(abs(top), abs(bottom), 1e-30):
        margin = abs(top) / 10 or 1.0
        bottom, top = (bottom if low is not None else bottom - margin), max(top, bottom) + margin
    step = round_step((top - bottom) / (most - 1))
    bottom = math.floor(bottom / step + 1e-9) * step if low is None else bottom
    top = math.ceil(top / step - 1e-9) * step if high is None else top
    first = math.ceil(bottom / step - 1e-9)
    count = math.floor(top / step + 1e-9) - first + 1
    ticks = tuple(round((first + k) * step, 12) for k in range(count))
    return Axis(bottom, top, start, end, ticks)


def log_axis(values: Iterable[float], start: float, end: float) -> Axis:
    """An axis of positive values by logarithm.

    >>> log_axis([12, 2500], 0, 100).ticks
    (30.0, 100.0, 300.0, 1000.0)
    """
    finite = [value for value in values if 1 / _ENDLESS < value < _ENDLESS] or [1.0]
    low, high = min(finite) / 1.15, max(finite) * 1.15
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        ticks = tuple(round(k * 10.0**p, 12) for p in powers for k in steps)
        ticks = tuple(tick for tick in ticks if low <= tick <= high)
        if len(ticks) >= 3:
            break
    return Axis(low, high, start, end, ticks, log=True)


def whole_axis(low: int, high: int, start: float, end: float) -> Axis:
    """An axis of counts: ticks at whole numbers, room for half a count at either end."""
    step = max(1, math.ceil(round_step((high - low) / 7))) if high > low else 1
    ticks = [low, *range(low // step * step + step, high + 1, step)]
    if len(ticks) > 2 and ticks[1] - low < step / 2:
        ticks = ticks[1:]
    margin = max(0.4, (high - low) * 0.03)
    return Axis(low - margin, high + margin, start, end, tuple(map(float, ticks)))


def round_step(least: float) -> float:
    """The smallest of …, 1, 2, 5, 10, … that is not below `least`.

    >>> round_step(0.3), round_step(3), round_step(20)
    (0.5, 5.0, 20.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= 0.999 * least
    )


def tick_label(value: float) -> str:
    """A tick in as few figures as it needs."""
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.3g}".replace("e-0", "e-").replace("-", "−")
    return f"{value:,.7g}".replace("-", "−")


def spread_out(places: list[float], gap: float, low: float, high: float) -> list[float]:
    """Places moved as little as it takes to stand `gap` apart, in the same order, within limits."""
    order = sorted(range(len(places)), key=lambda k: places[k])
    moved = list(places)
    for before, k in zip([None, *order], order, strict=False):
        moved[k] = max(moved[k], low if before is None else moved[before] + gap)
    for after, k in zip([None, *order[::-1]], order[::-1], strict=False):
        moved[k] = min(moved[k], high if after is None else moved[after] - gap)
    return moved
