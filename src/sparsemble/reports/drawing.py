"""What charts are drawn with: the frame with its ticks, lines, marks, and the SVG around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sparsemble.reports.axes import Axis, tick_label
from sparsemble.reports.markup import Html, element, joined

WIDTH, HEIGHT = 480, 290
LEFT, TOP, BOTTOM = 54, 32, HEIGHT - 46
"""The edges of what is drawn; wide labels at either side push it inwards."""
FONT = 17
"""Size of the letters on a phone, which there is room for; where charts are larger it is less."""
_ROW = 18
_ROWS = 2
"""Rows of words above the plot at most; what finds no place there is left to the pointer."""


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


@dataclass(frozen=True)
class Plot:
    """The two axes; `rise` is the room that words above the plot take."""

    xs: Axis
    ys: Axis
    rise: float = 0


def text_width(word: str) -> float:
    """How wide a word is at most, in the letters of a phone.

    >>> round(text_width("101.952"))
    72
    """
    return FONT * sum(0.36 if c in ".,:;' ijlft" else 0.95 if c in "mwMW" else 0.65 for c in word)


def left_edge(heights: Iterable[str]) -> float:
    """Where a plot begins so that the words beside its ticks find room."""
    return max(LEFT, 10 + max(map(text_width, heights), default=0))


def frame(
    plot: Plot,
    x_label: str,
    y_label: str,
    words: Sequence[str],
    heights: Sequence[str] | None = None,
) -> Iterable[Html]:
    """Grid, ticks and the axes' names."""
    xs, ys = plot.xs, plot.ys
    ends = {"x1": xs.start, "x2": xs.end}
    for value, word in zip(ys.ticks, heights or map(tick_label, ys.ticks), strict=True):
        y = ys(value)
        yield element("line", class_="grid", **ends, y1=y, y2=y)
        yield element("text", word, class_="tick end", x=xs.start - 7, y=y + 4)
    for value, word in zip(xs.ticks, words, strict=True):
        yield element("text", word, class_="tick middle", x=xs(value), y=ys.start + 17)
    yield element("line", class_="base", **ends, y1=ys.start, y2=ys.start)
    yield element("text", x_label, class_="name end", x=xs.end, y=ys.start + 38)
    yield element("text", y_label, class_="name", x=4, y=TOP - 17 - plot.rise)


def drawn(line: Line, places: Sequence[float], plot: Plot) -> Html:
    """A line, broken where values are missing, or its dots."""
    kind = f"t{line.tone}{' faint' if line.faint else ''}"
    points = [
        (plot.xs(x), plot.ys(v)) if math.isfinite(v) else None
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


def level(mark: Mark, plot: Plot) -> Html:
    """A horizontal mark."""
    y = plot.ys(mark.at)
    return element("line", class_="mark", x1=plot.xs.start, x2=plot.xs.end, y1=y, y2=y)


def times(marks: Sequence[Mark], plot: Plot, y_label: str) -> tuple[list[Html], Plot]:
    """Upright marks within the plot, their words above it where no curve passes; the plot risen.

    The y-axis' name, if it has one, stands above them.
    """
    lines, words = [], []
    rows: list[list[tuple[float, float]]] = []
    for mark in marks:
        if not plot.xs.low <= mark.at <= plot.xs.high:
            continue
        x, wide, top = plot.xs(mark.at), text_width(mark.label), float(TOP)
        leftwards = x + 5 + wide > WIDTH
        place = (x - 5 - wide, x - 5) if leftwards else (x + 5, x + 5 + wide)
        row = _free_row(rows, place) if mark.label else None
        if row is not None:
            y = TOP - 6 - _ROW * row
            top = y - 10
            kind = "label level end" if leftwards else "label level"
            at = place[1] if leftwards else place[0]
            words.append(element("text", mark.label, class_=kind, x=at, y=y))
        ends = {"x1": x, "x2": x, "y1": top, "y2": BOTTOM}
        lines.append(element("line", class_="mark", **ends, data_tip=mark.tip or None))
    above = len(rows) if y_label else max(0, len(rows) - 1)
    return [*lines, *words], replace(plot, rise=_ROW * above)


def _free_row(rows: list[list[tuple[float, float]]], place: tuple[float, float]) -> int | None:
    """Take the lowest row in which a word overlaps no other."""
    for number, row in enumerate(rows):
        if all(place[1] + 4 < begin or end + 4 < place[0] for begin, end in row):
            row.append(place)
            return number
    if len(rows) == _ROWS:
        return None
    rows.append([place])
    return len(rows) - 1


def svg(
    title: str,
    description: str,
    parts: Iterable[str],
    *,
    height: float = HEIGHT,
    rise: float = 0,
    data_chart: str | None = None,
) -> Html:
    """A chart with its title and description; `data_chart` is what the page's script reads.

    `rise` is room above the usual height.
    """
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *parts,
        class_="chart",
        role="img",
        viewBox=f"0 {-rise:g} {WIDTH} {height + rise:g}",
        tabindex=0 if data_chart else None,
        data_chart=data_chart,
    )


def power(exponent: int) -> str:
    """A power of ten.

    >>> power(-3), power(12)
    ('10⁻³', '10¹²')
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
