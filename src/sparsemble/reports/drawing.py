"""What charts are drawn with: the frame with its ticks, lines, marks, and the SVG around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparsemble.reports.axes import Axis, tick_label
from sparsemble.reports.markup import Html, element, joined

WIDTH, HEIGHT = 480, 290
LEFT, TOP, BOTTOM = 54, 32, HEIGHT - 46
"""The edges of what is drawn; how far it reaches to the right depends on the labels there."""


@dataclass(frozen=True)
class Line:
    """Values over common places; `dots` draws points instead; `label` stands at the end."""

    name: str
    values: tuple[float, ...]
    tone: int = 0
    dots: bool = False
    faint: bool = False
    label: str = ""


@dataclass(frozen=True)
class Mark:
    """A straight line across the chart at one value, with a word beside it."""

    at: float
    label: str
    tip: str = ""


def frame(
    xs: Axis,
    ys: Axis,
    right: float,
    x_label: str,
    y_label: str,
    words: Sequence[str],
    heights: Sequence[str] | None = None,
) -> Iterable[Html]:
    """Grid, ticks and the axes' names."""
    for value, word in zip(ys.ticks, heights or map(tick_label, ys.ticks), strict=True):
        y = ys(value)
        yield element("line", class_="grid", x1=LEFT, x2=right, y1=y, y2=y)
        yield element("text", word, class_="tick end", x=LEFT - 7, y=y + 4)
    for value, word in zip(xs.ticks, words, strict=True):
        yield element("text", word, class_="tick middle", x=xs(value), y=ys.start + 18)
    yield element("line", class_="base", x1=LEFT, x2=right, y1=ys.start, y2=ys.start)
    yield element("text", x_label, class_="name end", x=right, y=ys.start + 36)
    yield element("text", y_label, class_="name", x=4, y=TOP - 14)


def drawn(line: Line, places: Sequence[float], xs: Axis, ys: Axis) -> Html:
    """A line, broken where values are missing, or its dots."""
    kind = f"t{line.tone}{' faint' if line.faint else ''}"
    points = [
        (xs(x), ys(v)) if math.isfinite(v) else None
        for x, v in zip(places, line.values, strict=True)
    ]
    if line.dots:
        dots = (
            element("circle", class_=f"dot {kind}", cx=p[0], cy=p[1], r=3.2) for p in points if p
        )
        return joined(dots)
    path, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        path.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "L"
    alone = points[0] if len(points) == 1 else None
    dot = element("circle", class_=f"dot {kind}", cx=alone[0], cy=alone[1], r=3.2) if alone else ""
    return joined([element("path", class_=f"line {kind}", d="".join(path)), dot])


def event(x: float) -> Html:
    """A small mark on the axis."""
    return element("path", class_="event", d=f"M{x:.1f} {BOTTOM - 7}l3.5 6h-7z")


def level(mark: Mark, ys: Axis, right: float) -> Html:
    """A horizontal mark."""
    y = ys(mark.at)
    return element("line", class_="mark", x1=LEFT, x2=right, y1=y, y2=y)


def time(mark: Mark, xs: Axis, row: int = 0) -> Html:
    """An upright mark, its word in one of several rows."""
    x = xs(mark.at)
    tip = mark.tip or None
    line = element("line", class_="mark", x1=x, x2=x, y1=TOP, y2=BOTTOM, data_tip=tip)
    if not mark.label:
        return line
    leftwards = x > WIDTH * 0.6
    place = {"x": x + (-5 if leftwards else 5), "y": TOP + 10 + 14 * row}
    kind = "label level end" if leftwards else "label level"
    return joined([line, element("text", mark.label, class_=kind, **place)])


def svg(
    title: str,
    description: str,
    parts: Iterable[str],
    *,
    height: float = HEIGHT,
    data_chart: str | None = None,
) -> Html:
    """A chart with its title and description; `data_chart` is what the page's script reads."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *parts,
        class_="chart",
        role="img",
        viewBox=f"0 0 {WIDTH} {height:g}",
        tabindex=0 if data_chart else None,
        data_chart=data_chart,
    )


def power(exponent: int) -> str:
    """A power of ten.

    >>> power(-3), power(12)
    ('10⁻³', '10¹²')
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
