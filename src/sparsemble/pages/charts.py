"""Charts as SVG: lines, bars, reliability, scattered points. Pure functions of plain values.

Colours are classes (`t0` to `t5`) that the page's style gives meaning to, for light and dark and
apart for colour-blind readers; lines are labelled where they end. `data-chart` and `data-tip` hold
what the page's script reads out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from sparsemble.pages.axes import Axis, axis, log_axis, spread_out, tick_label, whole_axis
from sparsemble.pages.drawing import (
    BOLD,
    BOTTOM,
    HEIGHT,
    LEFT,
    TOP,
    WIDTH,
    Line,
    Mark,
    Plot,
    drawn,
    event,
    frame,
    labelled_axis,
    left_edge,
    level,
    power,
    svg,
    text_width,
    times,
)
from sparsemble.pages.numbers import figure
from sparsemble.pages.shapes import bar, dot, line, path, through, word

_POINTS = 400
"""Points of a line at most, but for its last; longer ones are thinned."""
_SCATTERED = 2000
"""The same of scattered points."""
_SIDE = 310
"""Of a plot that is square."""
_WIDE = 8.0
_APART = 19
"""Between the labels of lines."""

__all__ = [
    "Bars",
    "Line",
    "Mark",
    "bar_chart",
    "line_chart",
    "reliability_chart",
    "scatter_chart",
]


@dataclass(frozen=True)
class Bars:
    """Heights of one series of bars."""

    name: str
    values: tuple[float, ...]
    tone: int = 0


def is_wide(values: Sequence[float]) -> bool:
    """Do values differ by so large a factor that an axis should be logarithmic?

    >>> is_wide([1.0, 9.0, math.nan]), is_wide([0.0, 9.0])
    (True, False)
    """
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) > _WIDE * min(finite)


def line_chart(
    title: str,
    description: str,
    places: Sequence[float],
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    levels: Sequence[Mark] = (),
    marks: Sequence[Mark] = (),
    events: Sequence[float] = (),
    low: float | None = None,
    log: bool = False,
) -> Markup:
    """Lines over counted places (members, epochs).

    `levels` are horizontal, `marks` upright, `events` small marks on the axis; `low` is where
    the upright axis begins.
    """
    places, lines = _thinned(places, lines)
    ends = _ends(lines, levels)
    values = [v for line in lines for v in line.values] + [mark.at for mark in levels]
    ys = log_axis(values, BOTTOM, TOP) if log else axis(values, BOTTOM, TOP, low=low)
    left = left_edge(map(tick_label, ys.ticks))
    right = WIDTH - 12 - BOLD * max((text_width(label) for label, _, _ in ends), default=0)
    xs = whole_axis(int(min(places)), math.ceil(max(places)), left, right)
    named = f"{y_label}, log scale".removeprefix(", ") if log else y_label
    upright, plot = times(marks, Plot(xs, ys), named)
    shapes = [
        *frame(plot, x_label, named, [tick_label(t) for t in xs.ticks]),
        *(level(mark, plot) for mark in levels),
        *upright,
        *(event(xs(at)) for at in events),
        *(shape for series in lines for shape in drawn(series, places, plot)),
        line("cursor", 0, TOP, 0, BOTTOM),
        *_end_labels(ends, plot),
    ]
    readout = json.dumps(_readout(places, lines, x_label, xs), separators=(",", ":"))
    return svg(title, description, shapes, rise=plot.rise, readout=readout)


def _thinned(
    places: Sequence[float], lines: Sequence[Line]
) -> tuple[Sequence[float], Sequence[Line]]:
    """At most so many points, the last among them."""
    kept = _spaced(len(places), _POINTS)
    return [places[k] for k in kept], [
        replace(series, values=tuple(series.values[k] for k in kept)) for series in lines
    ]


def _spaced(number: int, most: int) -> list[int]:
    """Evenly spaced indices, all if there are not more than `most`; the last is among them.

    >>> _spaced(10, 4)
    [0, 3, 6, 9]
    """
    return sorted({*range(0, number, max(1, math.ceil(number / most))), number - 1} - {-1})


def _ends(lines: Sequence[Line], levels: Sequence[Mark]) -> list[tuple[str, str, float]]:
    """Words at the right edge: what they say, their class, and the value they stand at."""
    found = []
    for series in lines:
        finite = [value for value in series.values if math.isfinite(value)]
        if series.label and finite:
            found.append((series.label, f"label t{series.tone}", finite[-1]))
    return found + [(mark.label, "label level", mark.at) for mark in levels]


def _end_labels(ends: Sequence[tuple[str, str, float]], plot: Plot) -> list[Markup]:
    places = spread_out([plot.ys(value) for _, _, value in ends], _APART, TOP + 4, BOTTOM)
    return [
        word(label, kind, plot.xs.end + 8, y + 4)
        for (label, kind, _), y in zip(ends, places, strict=True)
    ]


def _readout(
    places: Sequence[float], lines: Sequence[Line], x_label: str, xs: Axis
) -> dict[str, object]:
    """What the page's script shows at the pointer."""
    return {
        "x": [_short(x) for x in places],
        "word": x_label,
        "from": xs.low,
        "to": xs.high,
        "left": xs.start,
        "right": xs.end,
        "width": WIDTH,
        "lines": [
            {"name": series.name, "tone": series.tone, "y": [_short(v) for v in series.values]}
            for series in lines
        ],
    }


def bar_chart(
    title: str,
    description: str,
    edges: Sequence[float],
    series: Sequence[Bars],
    *,
    x_label: str,
    y_label: str,
    marks: Sequence[Mark] = (),
    powers: bool = False,
    root: bool = False,
) -> Markup:
    """Bars between edges, those of several series side by side.

    With `powers` the edges are decimal logarithms; with `root` heights are square roots, so that
    small counts stay visible beside large ones.
    """
    scaled = math.sqrt if root else float
    tallest = max(scaled(v) for bars in series for v in bars.values)
    ys = axis([0, tallest or 1], BOTTOM, TOP, low=0)
    heights = [tick_label(t * t if root else t) for t in ys.ticks]
    every = [*edges, *(mark.at for mark in marks)] if powers else edges
    xs = labelled_axis(min(every), max(every), left_edge(heights))
    if powers:
        whole = range(math.ceil(xs.low - 1e-9), math.floor(xs.high + 1e-9) + 1)
        xs = replace(xs, ticks=tuple(map(float, whole)))
    words = [power(int(t)) if powers else tick_label(t) for t in xs.ticks]
    upright, plot = times(marks, Plot(xs, ys), y_label)
    shapes = [*frame(plot, x_label, y_label, words, heights)]
    named = _edge_names(edges, powers)
    for place, bars in enumerate(series):
        for k, value in enumerate(bars.values):
            wide = (xs(edges[k + 1]) - xs(edges[k])) / len(series)
            if value > 0:
                top = ys(scaled(value))
                shapes.append(
                    bar(
                        f"t{bars.tone}",
                        xs(edges[k]) + place * wide + 0.5,
                        min(top, ys.start - 1),
                        max(wide - 1, 0.5),
                        max(ys.start - top, 1.0),
                        f"{bars.name}: {figure(value)} from {named[k]} to {named[k + 1]}",
                    )
                )
    return svg(title, description, [*shapes, *upright], rise=plot.rise)


def _edge_names(edges: Sequence[float], powers: bool) -> list[str]:
    """Edges in as many figures as it takes to tell them apart."""
    if powers:
        return [f"{10**edge:.2g}" for edge in edges]
    narrowest = min(high - low for low, high in pairwise(edges))
    decimals = max(0, 2 - math.floor(math.log10(narrowest)))
    return [tick_label(round(edge, decimals)) for edge in edges]


def reliability_chart(
    title: str,
    description: str,
    series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]],
) -> Markup:
    """Accuracy over confidence; a larger dot holds more predictions, below the line too sure.

    Every series has a name and bins of predictions: their mean confidence, their accuracy, and
    their share of all predictions; empty bins are left out.
    """
    xs = axis([], LEFT, LEFT + _SIDE, low=0, high=1)
    ys = axis([], TOP + _SIDE, TOP, low=0, high=1)
    shapes = [
        *frame(Plot(xs, ys), "Confidence", "Accuracy", list(map(tick_label, xs.ticks))),
        line("diagonal", xs(0), ys(0), xs(1), ys(1)),
        word("calibrated", "label level", xs(0.03), ys(0.12)),
    ]
    for tone, (name, bins) in enumerate(series):
        full = [(xs(x), ys(y), x, y, share) for x, y, share in bins if share > 0]
        shapes.append(path(f"line t{tone}", through((x, y) for x, y, *_ in full)))
        for x, y, sure, right, share in full:
            tip = f"{name}: right {right:.0%} at a confidence of {sure:.0%} "
            tip += f"({share:.1%} of the predictions)"
            shapes.append(dot(f"t{tone}", x, y, 2.5 + 5 * math.sqrt(share), tip))
        shapes.append(word(name, f"label t{tone}", xs.end + 10, TOP + 16 + 18 * tone))
    return svg(title, description, shapes, height=TOP + _SIDE + HEIGHT - BOTTOM)


def scatter_chart(
    title: str,
    description: str,
    points: Sequence[tuple[float, float]],
    *,
    x_label: str,
    y_label: str,
    tips: Sequence[str] = (),
    diagonal: bool = False,
    band: Sequence[tuple[float, float, float]] = (),
    tone: int = 0,
) -> Markup:
    """Points in the plane, thinned evenly where they are many; those not finite are left out.

    Args:
        title: What the chart shows, for who cannot see it.
        description: What it says, the same.
        points: The places of the points.
        x_label: Name of the horizontal axis.
        y_label: Name of the upright one.
        tips: What is read out at each point; by default its place.
        diagonal: Draw where both are equal, in a square with the same limits on either axis.
        band: Shaded between two heights: places in order, each with the lower and the upper one.
        tone: Number of the colour.
    """
    known = [k for k, point in enumerate(points) if all(map(math.isfinite, point))]
    shown = [known[k] for k in _spaced(len(known), _SCATTERED)]
    across = _limits([points[k][0] for k in shown] + [x for x, _, _ in band])
    up = _limits([points[k][1] for k in shown] + [y for _, *both in band for y in both])
    if diagonal:
        across = up = min(across[0], up[0]), max(across[1], up[1])
    bottom = TOP + _SIDE if diagonal else BOTTOM
    ys = axis([], bottom, TOP, low=up[0], high=up[1], most=8 if diagonal else 6)
    left = left_edge(map(tick_label, ys.ticks))
    xs = labelled_axis(*across, left, left + _SIDE if diagonal else None)
    ys = replace(ys, ticks=xs.ticks) if diagonal else ys
    shapes = [*frame(Plot(xs, ys), x_label, y_label, list(map(tick_label, xs.ticks)))]
    if band:
        edge = [(x, high) for x, _, high in band] + [(x, low) for x, low, _ in reversed(band)]
        shapes.append(path(f"band t{tone}", through((xs(x), ys(y)) for x, y in edge) + "Z"))
    if diagonal:
        shapes.append(line("diagonal", xs.start, ys.start, xs.end, ys.end))
    for k in shown:
        x, y = points[k]
        tip = tips[k] if tips else f"{x_label} {figure(x)}\n{y_label} {figure(y)}"
        shapes.append(dot(f"t{tone} many", xs(x), ys(y), 2.6, tip))
    return svg(title, description, shapes, height=bottom + HEIGHT - BOTTOM)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """From the smallest to the largest, and a little room for what is drawn there."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.04 * (high - low) or abs(high) / 10 or 1.0
    return low - room, high + room


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
