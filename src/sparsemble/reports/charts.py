"""Charts as SVG text: lines, bars, reliability, pictures. Pure functions of values.

Colours are classes (`t0` to `t5`) that the page's style gives meaning to, for light and dark and
apart for colour-blind readers; lines are labelled where they end. `data-chart` and `data-tip` hold
what the page's script reads out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparsemble.reports.axes import Axis, axis, log_axis, spread_out, tick_label, whole_axis
from sparsemble.reports.drawing import (
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
    left_edge,
    level,
    power,
    svg,
    text_width,
    times,
)
from sparsemble.reports.images import data_uri
from sparsemble.reports.markup import Html, element
from sparsemble.reports.measures.classes import Bin
from sparsemble.reports.numbers import figure

_POINTS = 400
"""Points of a line at most, but for its last; longer ones are thinned."""
_APART = 19
"""Between the labels of lines."""
_BOLD = 1.1
"""How much wider they are than plain text."""


__all__ = ["Bars", "Line", "Mark", "bar_chart", "line_chart", "picture", "reliability_chart"]


@dataclass(frozen=True)
class Bars:
    """Heights of one series of bars."""

    name: str
    values: tuple[float, ...]
    tone: int = 0


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
    high: float | None = None,
    log: bool = False,
) -> Html:
    """Lines over counted places (members, epochs).

    `levels` are horizontal, `marks` upright, `events` small marks on the axis.
    """
    places, lines = _thinned(places, lines)
    ends = _ends(lines, levels)
    values = [v for line in lines for v in line.values] + [mark.at for mark in levels]
    ys = log_axis(values, BOTTOM, TOP) if log else axis(values, BOTTOM, TOP, low=low, high=high)
    left = left_edge(map(tick_label, ys.ticks))
    right = WIDTH - 12 - _BOLD * max((text_width(word) for word, _, _ in ends), default=0)
    xs = whole_axis(int(min(places)), math.ceil(max(places)), left, right)
    named = f"{y_label}, log scale".removeprefix(", ") if log else y_label
    upright, plot = times(marks, Plot(xs, ys), named)
    parts = [
        *frame(plot, x_label, named, [tick_label(t) for t in xs.ticks]),
        *(level(mark, plot) for mark in levels),
        *upright,
        *(event(xs(at)) for at in events),
        *(drawn(line, places, plot) for line in lines),
        element("line", class_="cursor", x1=0, x2=0, y1=TOP, y2=BOTTOM),
        *_end_labels(ends, plot),
    ]
    read = json.dumps(_readout(places, lines, x_label, xs), separators=(",", ":"))
    return svg(title, description, parts, rise=plot.rise, data_chart=read)


def _thinned(
    places: Sequence[float], lines: Sequence[Line]
) -> tuple[Sequence[float], Sequence[Line]]:
    """At most so many points, the last among them."""
    step = math.ceil(len(places) / _POINTS)
    if step <= 1:
        return places, lines
    kept = sorted({*range(0, len(places), step), len(places) - 1})
    return [places[k] for k in kept], [
        replace(line, values=tuple(line.values[k] for k in kept)) for line in lines
    ]


def _ends(lines: Sequence[Line], levels: Sequence[Mark]) -> list[tuple[str, str, float]]:
    """Words at the right edge: what they say, their class, and the value they stand at."""
    found = []
    for line in lines:
        finite = [value for value in line.values if math.isfinite(value)]
        if line.label and finite:
            found.append((line.label, f"label t{line.tone}", finite[-1]))
    return found + [(mark.label, "label level", mark.at) for mark in levels]


def _end_labels(ends: Sequence[tuple[str, str, float]], plot: Plot) -> list[Html]:
    places = spread_out([plot.ys(value) for _, _, value in ends], _APART, TOP + 4, BOTTOM)
    return [
        element("text", word, class_=kind, x=plot.xs.end + 8, y=y + 4)
        for (word, kind, _), y in zip(ends, places, strict=True)
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
            {"name": line.name, "tone": line.tone, "y": [_short(v) for v in line.values]}
            for line in lines
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
) -> Html:
    """Bars between edges, those of several series side by side.

    With `powers` the edges are decimal logarithms; with `root` heights are square roots, so that
    small counts stay visible beside large ones.
    """
    scaled = math.sqrt if root else float
    tallest = max(scaled(v) for bars in series for v in bars.values)
    ys = axis([0, tallest or 1], BOTTOM, TOP, low=0)
    heights = [tick_label(t * t if root else t) for t in ys.ticks]
    every = [*edges, *(mark.at for mark in marks)] if powers else edges
    xs = axis([], left_edge(heights), WIDTH - 20, low=min(every), high=max(every), most=8)
    if powers:
        whole = range(math.ceil(xs.low - 1e-9), math.floor(xs.high + 1e-9) + 1)
        xs = replace(xs, ticks=tuple(map(float, whole)))
    words = [power(int(t)) if powers else tick_label(t) for t in xs.ticks]
    upright, plot = times(marks, Plot(xs, ys), y_label)
    parts = [*frame(plot, x_label, y_label, words, heights)]
    for place, bars in enumerate(series):
        for low, high, value in zip(edges, edges[1:], bars.values, strict=False):
            wide = (xs(high) - xs(low)) / len(series)
            if value > 0:
                top = ys(scaled(value))
                ends = [f"{10**e:.2g}" if powers else tick_label(round(e, 4)) for e in (low, high)]
                parts.append(
                    element(
                        "rect",
                        class_=f"bar t{bars.tone}",
                        x=xs(low) + place * wide + 0.5,
                        y=min(top, ys.start - 1),
                        width=max(wide - 1, 0.5),
                        height=max(ys.start - top, 1.0),
                        data_tip=f"{bars.name}: {figure(value)} from {ends[0]} to {ends[1]}",
                    )
                )
    return svg(title, description, [*parts, *upright], rise=plot.rise)


def reliability_chart(
    title: str, description: str, series: Sequence[tuple[str, Sequence[Bin]]]
) -> Html:
    """Accuracy over confidence; a larger dot holds more predictions, below the line too sure."""
    side = 310
    xs = axis([], LEFT, LEFT + side, low=0, high=1)
    ys = axis([], TOP + side, TOP, low=0, high=1)
    parts = [*frame(Plot(xs, ys), "Confidence", "Accuracy", list(map(tick_label, xs.ticks)))]
    ends = {"x1": xs(0), "y1": ys(0), "x2": xs(1), "y2": ys(1)}
    parts.append(element("line", class_="diagonal", **ends))
    parts.append(element("text", "calibrated", class_="label level", x=xs(0.03), y=ys(0.12)))
    for tone, (name, bins) in enumerate(series):
        full = [one for one in bins if one.share > 0]
        points = " ".join(f"{xs(b.confidence):.1f},{ys(b.accuracy):.1f}" for b in full)
        parts.append(element("polyline", class_=f"line t{tone}", points=points))
        for one in full:
            tip = f"{name}: right {one.accuracy:.0%} at a confidence of {one.confidence:.0%} "
            parts.append(
                element(
                    "circle",
                    class_=f"dot t{tone}",
                    cx=xs(one.confidence),
                    cy=ys(one.accuracy),
                    r=2.5 + 5 * math.sqrt(one.share),
                    data_tip=f"{tip}({one.share:.1%} of the predictions)",
                )
            )
        place = {"x": xs.end + 10, "y": TOP + 16 + 18 * tone}
        parts.append(element("text", name, class_=f"label t{tone}", **place))
    return svg(title, description, parts, height=TOP + side + HEIGHT - BOTTOM)


def picture(
    png: bytes, label: str, *, ink: bool = True, tiles: int = 1, square: bool = False
) -> Html:
    """A raster picture that a click enlarges; ink takes the page's colours.

    `tiles` draws lines between equal parts of its rows; `square` keeps its own proportions.
    """
    image = element("img", src=data_uri(png), alt="", class_="ink" if ink else None)
    kinds = ["picture", *["square"] * square, *["tiled"] * (tiles > 1)]
    style = f"--tiles:{tiles}" if tiles > 1 else None
    return element(
        "button", image, type="button", class_=" ".join(kinds), style=style, aria_label=label
    )


def _short(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None
