"""The elements of SVG that charts are made of; `kind` is a class, `tip` is read out at the pointer.

>>> print(word("a < b", "tick", 1, 2 / 3))
<text class="tick" x="1" y="0.666667">a &lt; b</text>
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup


def line(kind: str, x1: float, y1: float, x2: float, y2: float, tip: str = "") -> Markup:
    """A straight line."""
    shape = Markup('<line class="{}" x1="{:.6g}" y1="{:.6g}" x2="{:.6g}" y2="{:.6g}"{}/>')
    return shape.format(kind, x1, y1, x2, y2, _tip(tip))


def word(text: str, kind: str, x: float, y: float) -> Markup:
    """Words at a place."""
    return Markup('<text class="{}" x="{:.6g}" y="{:.6g}">{}</text>').format(kind, x, y, text)


def dot(kind: str, x: float, y: float, radius: float = 3.2, tip: str = "") -> Markup:
    """A filled circle."""
    shape = Markup('<circle class="dot {}" cx="{:.6g}" cy="{:.6g}" r="{:.6g}"{}/>')
    return shape.format(kind, x, y, radius, _tip(tip))


def bar(kind: str, x: float, y: float, width: float, height: float, tip: str = "") -> Markup:
    """An upright bar, by its upper left corner."""
    shape = Markup('<rect class="bar {}" x="{:.6g}" y="{:.6g}" width="{:.6g}" height="{:.6g}"{}/>')
    return shape.format(kind, x, y, width, height, _tip(tip))


def path(kind: str, steps: str) -> Markup:
    """A path, by its steps in the words of SVG."""
    return Markup('<path class="{}" d="{}"/>').format(kind, steps)


def through(points: Iterable[tuple[float, float] | None]) -> str:
    """The steps of a path through points, broken where one is missing.

    >>> through([(0, 1), (2, 3), None, (4, 5)])
    'M0.0 1.0L2.0 3.0M4.0 5.0'
    """
    steps, pen = "", "M"
    for point in points:
        if point is not None:
            steps += f"{pen}{point[0]:.1f} {point[1]:.1f}"
        pen = "M" if point is None else "L"
    return steps


def _tip(text: str) -> Markup:
    return Markup(' data-tip="{}"').format(text) if text else Markup()
