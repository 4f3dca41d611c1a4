"""What a network multiplies: matrices, and where they read and make units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparsemble.structure.sizes import Range, Size
from sparsemble.structure.units import WHOLE, Part


@dataclass(frozen=True)
class Matrix:
    """What one multiplication uses: weights side by side, or a part of their rows.

    `parts` names equal parts of the rows that could be multiplied one by one (an LSTM's gates).
    """

    name: str
    parameters: tuple[str, ...]
    part: Part = WHOLE
    parts: tuple[str, ...] = ()
    whole: Matrix | None = None
    """What it was split from."""
    positions: int = 1
    """How often it is multiplied for one example: once for every pixel, or every token."""
    rows: Range | None = None
    """Its rows among those of its one parameter, if they are not all."""
    makes: int = 0
    """The dimension of its parameters that counts rows; all others together are columns."""
    area: tuple[Size, Size] | None = None
    """Rows and columns of one that does not learn, and therefore has no mask."""

    def split(self) -> tuple[Matrix, ...]:
        """Its parts, each a matrix."""
        count = len(self.parts)
        return tuple(
            replace(
                self,
                name=f"{self.name} {name}",
                part=Part(number, count),
                parts=(),
                whole=self,
            )
            for number, name in enumerate(self.parts)
        )


@dataclass(frozen=True)
class Link:
    """One product of what the network computes with a weight.

    Of a traced network it says which value it reads, so that constants can be seen there.
    """

    weight: str
    makes: int
    """The weight's dimension that runs over the units it makes,"""
    reads: int
    """and over those it reads."""
    rows: Range
    columns: Range
    bias: str | None = None
    bias_rows: Range | None = None
    value: str | None = None
    """What it reads; `None` where that is not seen, inside a recurrent layer."""
    feature: int = -1
    """The dimension of it that runs over the units."""
    pads: bool = False
    """Does it also read zeros beside them?"""


@dataclass(frozen=True)
class UnitProduct:
    """A product of two values that a network computes (attention)."""

    name: str
    total: Size
    """FLOPs for so many examples together: what each takes may be no whole number of them,"""
    examples: int
    """where a part is computed once for all."""

    def flops(self, sizes: Mapping[str, int]) -> int:
        """FLOPs for one example, for spaces of these sizes.

        >>> UnitProduct("attention", Size(0, (("heads", 7),)), examples=2).flops({"heads": 4})
        14
        """
        return round(self.total.at(sizes) / self.examples)
