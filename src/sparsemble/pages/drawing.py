"""What charts are drawn with: the frame with its ticks, lines, marks, and the SVG around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from sparsemble.pages.axes import Axis, axis, tick_label
from sparsemble.pages.render import render
from sparsemble.pages.shapes import dot, line, path, through, word

WIDTH, HEIGHT = 480, 290
LEFT, TOP, BOTTOM = 54, 32, HEIGHT - 46
"""The edges of what is drawn; wide labels at either side push it inwards."""
FONT = 17
"""Size of the letters on a phone, which there is room for; where charts are larger it is less."""
BOLD = 1.1
"""How much wider bold words are than plain ones."""
_ROW = 18
_ROWS = 2
"""Rows of words above the plot at most; what finds no place there is left to the pointer."""
_SMALL = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_WIDTHS = (
    dict.fromkeys(".,:;' ijlft", 0.36) | dict.fromkeys(_SMALL, 0.42) | dict.fromkeys("mwMW", 0.95)
)
"""Of letters that are not of the usual width, in units of their size."""


@dataclass(frozen=True)
class Line:
    """Values over common places; `dots` draws points instead; `label` stands at the end.

    A line is broken where values are missing, unless it is `joined` there.
    """

    name: str
    values: tuple[float, ...]
    tone: int = 0
    dots: bool = False
    faint: bool = False
    label: str = ""
    joined: bool = False


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


def text_width(text: str) -> float:
    """How wide words are at most, in the letters of a phone.

    >>> round(text_width("101.952"))
    72
    """
    return FONT * sum(_WIDTHS.get(letter, 0.65) for letter in text)


def left_edge(heights: Iterable[str]) -> float:
    """Where a plot begins so that the words beside its ticks find room."""
    return max(LEFT, 10 + max(map(text_width, heights), default=0))


def labelled_axis(low: float, high: float, start: float, end: float | None = None) -> Axis:
    """A horizontal axis with as many ticks as there is room for the words below them.

    Unless its end is given, half of the last word finds room there.
    """
    for most in (8, 6, 5, 4):
        found = axis([], start, end or WIDTH, low=low, high=high, most=most)
        wide = [text_width(tick_label(tick)) for tick in found.ticks]
        if sum(wide) < 0.8 * ((end or WIDTH) - start):
            break
    return found if end else replace(found, end=WIDTH - max(20, wide[-1] / 2))


def frame(
    plot: Plot,
    x_label: str,
    y_label: str,
    words: Sequence[str],
    heights: Sequence[str] | None = None,
) -> Iterable[Markup]:
    """Grid, ticks and the axes' names."""
    xs, ys = plot.xs, plot.ys
    for value, height in zip(ys.ticks, heights or map(tick_label, ys.ticks), strict=True):
        y = ys(value)
        yield line("grid", xs.start, y, xs.end, y)
        yield word(height, "tick end", xs.start - 7, y + 4)
    for value, below in zip(xs.ticks, words, strict=True):
        yield word(below, "tick middle", xs(value), ys.start + 17)
    yield line("base", xs.start, ys.start, xs.end, ys.start)
    yield word(x_label, "name end", xs.end, ys.start + 38)
    yield word(y_label, "name", 4, TOP - 17 - plot.rise)


def drawn(series: Line, places: Sequence[float], plot: Plot) -> list[Markup]:
    """A line, broken where values are missing, or its dots; a single point is a dot as well."""
    kind = f"t{series.tone}{' faint' if series.faint else ''}"
    points = [
        (plot.xs(x), plot.ys(v)) if math.isfinite(v) else None
        for x, v in zip(places, series.values, strict=True)
    ]
    known = [point for point in points if point]
    dots = [dot(kind, *point) for point in known]
    if series.dots:
        return dots
    steps = through(known if series.joined else points)
    return [path(f"line {kind}", steps), *(dots if len(known) == 1 else [])]


def event(x: float) -> Markup:
    """A small mark on the axis."""
    return path("event", f"M{x:.1f} {BOTTOM - 7}l3.5 6h-7z")


def level(mark: Mark, plot: Plot) -> Markup:
    """A horizontal mark."""
    y = plot.ys(mark.at)
    return line("mark", plot.xs.start, y, plot.xs.end, y)


def times(marks: Sequence[Mark], plot: Plot, y_label: str) -> tuple[list[Markup], Plot]:
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
            words.append(word(mark.label, kind, place[1] if leftwards else place[0], y))
        lines.append(line("mark", x, top, x, BOTTOM, mark.tip))
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
    shapes: Iterable[Markup],
    *,
    height: float = HEIGHT,
    rise: float = 0,
    readout: str = "",
) -> Markup:
    """A chart with its title and description; `readout` is what the page's script shows.

    `rise` is room above the usual height.
    """
    return render(
        "pages/templates/chart.html",
        title=title,
        description=description,
        shapes=shapes,
        width=WIDTH,
        height=height,
        rise=rise,
        readout=readout,
    )


def power(exponent: int) -> str:
    """A power of ten.

    >>> power(-3), power(12)
    ('10⁻³', '10¹²')
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", _SMALL))
