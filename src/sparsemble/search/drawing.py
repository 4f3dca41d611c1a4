"""The front of a search as charts: as an SVG file, and in a page with all trials."""

from __future__ import annotations

import math
from itertools import accumulate

from markupsafe import Markup

from sparsemble.pages import blocks
from sparsemble.pages.blocks import Figure, Grid, Section
from sparsemble.pages.charts import Line, line_chart
from sparsemble.pages.document import charts_file, document
from sparsemble.pages.numbers import count, figure
from sparsemble.pages.spots import Spot, spot_chart
from sparsemble.results import Result
from sparsemble.results.tables import Table
from sparsemble.search.front import Found, front_table, trials_table
from sparsemble.search.objectives import COSTS, deciding_metric, value_of
from sparsemble.search.space import Objective
from sparsemble.search.trials import finished

_DENSE = "dense"


def front_file(found: Found) -> str:
    """The charts as an SVG file."""
    return charts_file([figure.drawing for figure in _figures(found)])


def search_page(found: Found) -> str:
    """The charts and all trials in one HTML file."""
    search = found.search
    return document(
        f"{search.recipe}: a search",
        [
            Section("front", "The front", [Grid(_figures(found)), _block(front_table(found))]),
            Section("trials", "All trials", [_block(trials_table(found))]),
        ],
        heading=f"A search around {search.recipe}",
        lead=f"{len(found.points)} of {len(found.trials)} trials were finished; figures are those "
        "of validation data.",
        chips=[*search.objectives, f"seed {search.seed}"],
    )


def _block(table: Table) -> blocks.Table:
    return blocks.Table(table.header, table.rows)


def _figures(found: Found) -> list[Figure]:
    """The loss against every cost; of one objective, how it fell."""
    costs = found.search.costs
    return [_against(cost, found) for cost in costs] if costs else [_by_trial(found)]


def _against(cost: Objective, found: Found) -> Figure:
    metric = deciding_metric(found.front[0][1])
    spots = _spots(cost, found)
    title = f"{metric.title} against {COSTS[cost]}"
    drawing = spot_chart(
        title,
        "; ".join(spot.tip for spot in spots if not spot.faint),
        spots,
        x_label=COSTS[cost],
        y_label=f"{metric.title}, validation",
        joined=len(found.search.costs) == 1,
    )
    caption = "Numbers are those of trials on the front; faint points are beaten by one of them."
    if outside := len(found.points) - sum(spot.name != _DENSE for spot in spots):
        caption += f" {outside} far worse ones are outside the picture."
    return Figure(title, drawing, caption)


def _spots(cost: Objective, found: Found) -> list[Spot]:
    """The trials from the cheapest on, but for those far worse than all of the front; the dense
    network."""
    worst = _worst_shown(found)
    spots = [
        Spot(
            str(trial.number) if front else "",
            *_place(cost, result),
            tone=0 if front else 5,
            tip=f"trial {trial.number}: {_in_words(cost, result)}",
            faint=not front,
        )
        for trial, result, front in sorted(found.points, key=lambda own: value_of(cost, own[1]))
        if front or value_of("quality", result) <= worst
    ]
    if found.dense is None:
        return spots
    tip = f"one dense network: {_in_words(cost, found.dense)}"
    return [*spots, Spot(_DENSE, *_place(cost, found.dense), tone=1, tip=tip)]


def _place(cost: Objective, result: Result) -> tuple[float, float]:
    return value_of(cost, result), result.score[deciding_metric(result).key]


def _in_words(cost: Objective, result: Result) -> str:
    metric = deciding_metric(result)
    quality = f"{metric.title} {figure(result.score[metric.key])}"
    return f"{quality}, {COSTS[cost]} {count(value_of(cost, result))}"


def _worst_shown(found: Found) -> float:
    """As far above the worst of the front as that is above the best; beaten trials may be worse."""
    losses = [value_of("quality", result) for _, result in found.front]
    return 2 * max(losses) - min(losses) if len(losses) > 1 else math.inf


def _by_trial(found: Found) -> Figure:
    metric = deciding_metric(found.front[0][1])
    known = finished(found.trials)
    figures = [result.score[metric.key] for _, result in known]
    best = max if metric.better == "higher" else min
    title = f"{metric.title} by trial"
    drawing: Markup = line_chart(
        title,
        f"the best {metric.title} is {figure(best(figures))}",
        [trial.number for trial, _ in known],
        [
            Line("trial", tuple(figures), tone=5, dots=True, faint=True),
            Line("best so far", tuple(accumulate(figures, best)), label="best"),
        ],
        x_label="Trial",
        y_label=f"{metric.title}, validation",
        log=min(figures) > 0,
    )
    return Figure(title, drawing, "Every finished trial, and the best so far.")
