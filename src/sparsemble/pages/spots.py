"""A chart of a few points with their names beside them, placed so that none covers another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sparsemble.pages.axes import axis, log_axis, tick_label
from sparsemble.pages.drawing import (
    BOLD,
    BOTTOM,
    LEFT,
    TOP,
    WIDTH,
    Plot,
    frame,
    left_edge,
    svg,
    text_width,
)
from sparsemble.pages.shapes import dot, path, through, word

_Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Spot:
    """A point with its name beside it, if it has one; `faint` ones stay in the background."""

    name: str
    x: float
    y: float
    tone: int = 0
    tip: str = ""
    faint: bool = False


def spot_chart(
    title: str,
    description: str,
    spots: Sequence[Spot],
    *,
    x_label: str,
    y_label: str,
    joined: bool = False,
) -> Markup:
    """A few named points, those not finite left out; the horizontal axis goes by logarithm.

    If asked, those of one tone are joined in their order, but for faint ones.
    """
    spots = [spot for spot in spots if math.isfinite(spot.x + spot.y)]
    ys = axis([spot.y for spot in spots], BOTTOM, TOP)
    left = left_edge(map(tick_label, ys.ticks))
    xs = log_axis([spot.x for spot in spots], left + 12, WIDTH - 24)
    plot = Plot(xs, ys)
    places = [(xs(spot.x), ys(spot.y)) for spot in spots]
    shapes = [*frame(plot, f"{x_label}, log scale", y_label, list(map(tick_label, xs.ticks)))]
    known = list(zip(places, spots, strict=True))
    for tone in dict.fromkeys(spot.tone for spot in spots if not spot.faint) if joined else ():
        own = [place for place, spot in known if spot.tone == tone and not spot.faint]
        shapes.append(path(f"line t{tone} faint", through(own)))
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in places]
    for (x, y), spot in known:
        if spot.faint:
            shapes.append(dot(f"t{spot.tone} many", x, y, 3.2, spot.tip))
    for (x, y), spot in known:
        if not spot.faint:
            shapes.append(dot(f"t{spot.tone}", x, y, 4.5, spot.tip))
        if not spot.name:
            continue
        anchor, *place = _free_place(x, y, BOLD * text_width(spot.name), taken)
        shapes.append(word(spot.name, f"label t{spot.tone} {anchor}".rstrip(), *place))
    return svg(title, description, shapes)


def _free_place(x: float, y: float, wide: float, taken: list[_Box]) -> tuple[str, float, float]:
    """Where a word beside a point covers nothing else, and is not cut off; it is taken then.

    The class of words that begin, end or have their middle there comes first.
    """
    beside = [("", x + 9), ("end", x - 9)]
    above_or_below = [("middle", x), ("", x - 4), ("end", x + 4)]
    places = [
        (anchor, across, y + down)
        for down in (4, -9, 19, -22, 32)
        for anchor, across in (beside if down == 4 else above_or_below)
    ]
    free = (
        place
        for place in places
        for box in [_box(place, wide)]
        if box[0] >= LEFT and box[1] >= 0 and box[2] <= WIDTH and box[3] <= BOTTOM
        if not any(_overlap(box, other) for other in taken)
    )
    found = next(free, places[0])
    taken.append(_box(found, wide))
    return found


def _box(place: tuple[str, float, float], wide: float) -> _Box:
    """What words at a place cover."""
    anchor, x, y = place
    left = x - {"": 0, "middle": wide / 2, "end": wide}[anchor]
    return left, y - 11, left + wide, y + 3


def _overlap(one: _Box, other: _Box) -> bool:
    return all(one[k] < other[k + 2] and other[k] < one[k + 2] for k in (0, 1))
