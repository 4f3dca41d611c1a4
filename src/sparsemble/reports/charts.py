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

from sparsemble.reports.axes import axis, log_axis, spread_out, tick_label, whole_axis
from sparsemble.reports.drawing import (
    BOTTOM,
    HEIGHT,
    LEFT,
    TOP,
    WIDTH,
    Line,
    Mark,
    drawn,
    event,
    frame,
    level,
    power,
    svg,
    time,
)
from sparsemble.reports.images import data_uri
from sparsemble.reports.markup import Html, element
from sparsemble.reports.measures.classes import Bin
from sparsemble.reports.numbers import figure

_LETTER = 7.3
"""Width of a letter of a label, roughly."""
_POINTS = 400
"""Points of a line at most; longer ones are thinned."""


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
    times: Sequence[Mark] = (),
    events: Sequence[float] = (),
    low: float | None = None,
    high: float | None = None,
    log: bool = False,
) -> Html:
    """Lines over counted places (members, epochs).

    `levels` are horizontal marks, `times` upright ones, `events` small ones on the axis.
    """
    step = max(1, math.ceil(len(places) / _POINTS))
    places = places[::step]
    lines = [replace(line, values=line.values[::step]) for line in lines]
    ends = [line for line in lines if line.label and any(map(math.isfinite, line.values))]
    words = [line.label for line in ends] + [mark.label for mark in levels]
    right = WIDTH - 12 - min(140.0, _LETTER * max(map(len, words), default=0))
    xs = whole_axis(int(min(places)), math.ceil(max(places)), LEFT, right)
    values = [v for line in lines for v in line.values] + [mark.at for mark in levels]
    ys = log_axis(values, BOTTOM, TOP) if log else axis(values, BOTTOM, TOP, low=low, high=high)
    named = f"{y_label}, log scale".removeprefix(", ") if log else y_label
    parts = [*frame(xs, ys, right, x_label, named, [tick_label(t) for t in xs.ticks])]
    parts += [level(mark, ys, right) for mark in levels]
    parts += [time(mark, xs) for mark in times if xs.low <= mark.at <= xs.high]
    parts += [event(xs(at)) for at in events]
    parts += [drawn(line, places, xs, ys) for line in lines]
    parts.append(element("line", class_="cursor", x1=0, x2=0, y1=TOP, y2=BOTTOM))
    heights = [ys(next(v for v in line.values[::-1] if math.isfinite(v))) for line in ends]
    heights += [ys(mark.at) for mark in levels]
    tones = [f"label t{line.tone}" for line in ends] + ["label level"] * len(levels)
    for word, tone, y in zip(words, tones, spread_out(heights, 14, TOP + 4, BOTTOM), strict=True):
        parts.append(element("text", word, class_=tone, x=right + 8, y=y + 4))
    read = {
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
    return svg(title, description, parts, data_chart=json.dumps(read, separators=(",", ":")))


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
    right = WIDTH - 14
    scaled = math.sqrt if root else float
    every = [*edges, *(mark.at for mark in marks)] if powers else edges
    xs = axis([], LEFT, right, low=min(every), high=max(every), most=8)
    if powers:
        whole = range(math.ceil(xs.low - 1e-9), math.floor(xs.high + 1e-9) + 1)
        xs = replace(xs, ticks=tuple(map(float, whole)))
    words = [power(int(t)) if powers else tick_label(t) for t in xs.ticks]
    tallest = max(scaled(v) for bars in series for v in bars.values)
    ys = axis([0, tallest or 1], BOTTOM, TOP, low=0)
    heights = [tick_label(t * t if root else t) for t in ys.ticks]
    parts = [*frame(xs, ys, right, x_label, y_label, words, heights)]
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
    shown = [mark for mark in marks if xs.low <= mark.at <= xs.high]
    parts += [time(mark, xs, row) for row, mark in enumerate(shown)]
    return svg(title, description, parts)


def reliability_chart(
    title: str, description: str, series: Sequence[tuple[str, Sequence[Bin]]]
) -> Html:
    """Accuracy over confidence; a larger dot holds more predictions, below the line too sure."""
    side = 320
    xs = axis([], LEFT, LEFT + side, low=0, high=1)
    ys = axis([], TOP + side, TOP, low=0, high=1)
    parts = [*frame(xs, ys, xs.end, "Confidence", "Accuracy", list(map(tick_label, xs.ticks)))]
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
