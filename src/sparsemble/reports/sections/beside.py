"""A run beside dense networks: quality against cost, every metric, and what was chosen among."""

from __future__ import annotations

from sparsemble.ensemble import Verdict
from sparsemble.pages.blocks import Block, Figure, Grid, Paragraph, Section, Table
from sparsemble.pages.numbers import figure
from sparsemble.pages.spots import Spot, spot_chart
from sparsemble.reports.measures.prices import Prices
from sparsemble.results.result import Result

_TONES = {"ensemble": 0, "dense": 1, "mean": 2, "small": 3}


def price_charts(priced: Prices) -> Grid:
    """The metrics over the FLOPs that they take."""
    return Grid([_chart(priced, place) for place in range(len(priced.metrics))])


def _chart(priced: Prices, place: int) -> Figure:
    metric = priced.metrics[place]
    spots = [
        Spot(
            price.name,
            price.flops,
            price.figures[place],
            _TONES[price.kind],
            f"{price.name}: {metric.title} {figure(price.figures[place])} at {price.flops:.2f}× "
            f"the FLOPs and {price.parameters:.2f}× the weights of one dense network",
        )
        for price in priced.found
    ]
    title = f"{metric.title} against cost"
    drawing = spot_chart(
        title,
        "; ".join(spot.tip for spot in spots),
        spots,
        x_label="FLOPs of one dense network = 1",
        y_label=metric.title,
        joined=True,
    )
    better = "Lower" if metric.better == "lower" else "Higher"
    caption = f"{better} is better, and further left is cheaper; on {priced.measured_on}."
    return Figure(title, drawing, caption)


def beside(verdict: Verdict | None, result: Result) -> Section | None:
    """Every metric and the candidates, as far as they are there; `None` for other runs."""
    blocks: list[Block] = []
    if verdict is not None:
        blocks.append(_figures(verdict))
    if result.candidates:
        blocks += [
            Paragraph(
                "What was compared on validation data, in this order. The first is what is usual; "
                "whatever came later had to do better than the best before it by more than the "
                "standard error of the difference."
            ),
            _candidates(result),
        ]
    return Section("beside", "Beside a dense network", blocks) if blocks else None


def _figures(verdict: Verdict) -> Table:
    rows = [
        [
            metric.title,
            metric.text(found.own),
            metric.text(found.other),
            f"{metric.text(found.low)} to {metric.text(found.high)}",
        ]
        for metric in verdict.metrics
        for found in [verdict.differences[metric.key]]
    ]
    header = ["", "Ensemble", "Dense", "Difference, in 95 of 100 cases"]
    return Table(header, rows, lead=True)


def _candidates(result: Result) -> Table:
    rows = [
        [
            f"{candidate}, chosen" if number == result.chosen else str(candidate),
            f"{candidate.figure:.4f}",
            f"{candidate.flops:.2f}×",
            f"{candidate.parameters:.2f}×",
        ]
        for number, candidate in enumerate(result.candidates)
    ]
    return Table(["", "Log score", "FLOPs", "Parameters"], rows, lead=True)
