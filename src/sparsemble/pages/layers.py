"""A network's layers as rows of bars: how many of their units are left, and which have to stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sparsemble.pages.drawing import WIDTH, svg, text_width
from sparsemble.pages.shapes import bar, word

_ROW = 26
_THICK = 15
_LONGEST = 24
"""Letters of a layer's name; of a longer one the end is shown, which tells layers apart."""


@dataclass(frozen=True)
class LayerUnits:
    """The units of one layer."""

    name: str
    noun: str
    left: float
    """How many there are, in the mean of the members,"""
    of: int
    """of so many."""
    reason: str = ""
    """Why they have to stay, if they do."""

    @property
    def figure(self) -> str:
        """Both numbers in words.

        >>> LayerUnits("conv1", "channels", 7.5, 16).figure
        '7.5 of 16 channels'
        >>> LayerUnits("inputs", "channels", 1, 1, "an input").figure
        '1 channel stays'
        """
        if self.reason and self.of == 1:
            return f"1 {self.noun.removesuffix('s')} stays"
        if self.reason:
            return f"{self.of} {self.noun} stay"
        left = f"{self.left:.1f}".removesuffix(".0")
        return f"{left} of {self.of} {self.noun}"


def layers_chart(title: str, description: str, layers: Sequence[LayerUnits]) -> Markup:
    """One row a layer, as data flows: the bar is as long as the share of its units that is left."""
    names = [_short(layer.name) for layer in layers]
    left = 12 + max(map(text_width, names), default=0)
    right = WIDTH - 12 - max((text_width(layer.figure) for layer in layers), default=0)
    wide = max(right - left, 60)
    shapes = []
    for number, (layer, name) in enumerate(zip(layers, names, strict=True)):
        y = 10 + _ROW * number
        share = layer.left / max(layer.of, 1)
        tip = f"{layer.name}: {layer.figure}" + (f", {layer.reason}" if layer.reason else "")
        shapes += [
            word(name, "tick end", left - 7, y + _THICK - 3),
            bar("t5 faint" if layer.reason else "t0 faint", left, y, wide, _THICK, tip),
            word(layer.figure, "tick", left + wide + 7, y + _THICK - 3),
        ]
        if not layer.reason:
            shapes.insert(-1, bar("t0", left, y, wide * share, _THICK, tip))
    return svg(title, description, shapes, height=20 + _ROW * len(layers))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
