"""Sizes that follow the units: numbers of an affine form in how many units each space has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """`fixed + Σ each·(units of a space)`.

    >>> heads = Size(0, (("heads", 16),))
    >>> heads.at({"heads": 3}), heads + Size(1)
    (48, Size(fixed=1, each=(('heads', 16),)))
    """

    fixed: int = 0
    each: tuple[tuple[str, int], ...] = ()

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number, for spaces of these sizes."""
        return self.fixed + sum(count * sizes[space] for space, count in self.each)

    def __add__(self, other: Size) -> Size:
        counts = dict(self.each)
        for space, count in other.each:
            counts[space] = counts.get(space, 0) + count
        each = tuple((space, count) for space, count in sorted(counts.items()) if count)
        return Size(self.fixed + other.fixed, each)

    def __mul__(self, factor: int) -> Size:
        each = tuple((space, count * factor) for space, count in self.each)
        return Size(self.fixed * factor, each)

    @property
    def is_fixed(self) -> bool:
        """Is it the same for all sizes?"""
        return not self.each


@dataclass(frozen=True)
class Range:
    """Positions from `start` to `stop` along a dimension."""

    start: Size
    stop: Size

    def at(self, sizes: Mapping[str, int]) -> slice:
        """The positions, for spaces of these sizes."""
        return slice(self.start.at(sizes), self.stop.at(sizes))
