"""How the ensemble came about: what each stage made of the networks, and the stages' traces."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparsemble.pages.blocks import Block, Figure, Folded, Grid, Heading, Paragraph, Section, Table
from sparsemble.pages.charts import Line, Mark, is_wide, line_chart
from sparsemble.pages.numbers import figure
from sparsemble.reports.facts import Facts
from sparsemble.reports.measures.curves import Curves
from sparsemble.reports.measures.summary import Summary
from sparsemble.reports.measures.traces import ChainTrace, StageTrace, Undone
from sparsemble.results.curves import TONES


def stages(facts: Facts) -> Section:
    """Figures 4a and 4b."""
    text = (
        "Every sample of the chain is pruned, made compact and retrained. Open dots are single "
        "networks after each of these stages, lines the average of the first one, two, … of "
        "them. A line below its dots is what averaging gains."
    )
    if facts.result.chosen is not None:
        text = (
            "Members are averages of neighbouring samples of the chain; how many there are, and "
            "whether they are retrained, validation data have chosen. Open dots are single "
            "members, the line is the average of the first one, two, … of them."
        )
    blocks: list[Block] = [Paragraph(text)]
    if not facts.has_samples and facts.result.chosen is None:
        blocks.append(
            Paragraph(
                "The samples of the chain are not in the run's folder, so only the final members "
                "are shown; name the folder they lie in with --samples."
            )
        )
    charts = [
        chart
        for curves in facts.curves
        for chart in (_along(curves), _by_number(curves, facts.summary))
    ]
    blocks += [Grid(charts), *map(_figures, facts.curves)]
    return Section("stages", "What each stage did", blocks)


def _along(curves: Curves) -> Figure:
    lines = []
    for curve in curves.stages:
        tone = TONES[curve.stage]
        lines.append(Line(f"{curve.stage}, alone", curve.alone, tone, dots=True, faint=True))
        lines.append(Line(f"{curve.stage}, averaged", curve.together, tone, label=curve.stage))
    ends = ", ".join(f"{c.stage} {figure(c.together[-1])}" for c in curves.stages)
    caption = f"On {curves.measured_on}. All networks averaged: {ends}."
    values = [v for curve in curves.stages for v in (*curve.alone, *curve.together)]
    drawing = line_chart(
        f"{curves.metric.title} along the learning",
        caption,
        range(1, len(curves.final.alone) + 1),
        lines,
        x_label="Sample",
        y_label=curves.metric.title,
        log=is_wide(values),
    )
    return Figure(f"{curves.metric.title} after each stage", drawing, caption)


def _by_number(curves: Curves, summary: Summary) -> Figure:
    final = curves.final
    levels = []
    # Over a part of the data the baseline's figure would not compare.
    if summary.baseline is not None and curves.whole:
        known = summary.baseline.figures[summary.metrics.index(curves.column)]
        levels += [] if known is None else [Mark(known, "baseline")]
    mean = sum(final.alone) / len(final.alone)
    if len(final.alone) > 1:
        levels.append(Mark(mean, "one alone"))
    drawing = line_chart(
        f"{curves.metric.title} by the number of members",
        f"From {figure(final.together[0])} with one member to {figure(final.together[-1])} with "
        f"{len(final.together)}.",
        range(1, len(final.together) + 1),
        [Line("averaged", final.together, 0, label=f"{figure(final.together[-1])}")],
        x_label="Members",
        y_label=curves.metric.title,
        levels=levels,
    )
    caption = f"{curves.metric.title} of the first members together, on {curves.measured_on}."
    return Figure("How many members does it take?", drawing, caption)


def _figures(curves: Curves) -> Folded:
    header = ["Sample"]
    for curve in curves.stages:
        header += [f"{curve.stage}, alone", "averaged"]
    rows = [
        [str(k + 1), *(figure(v[k]) for c in curves.stages for v in (c.alone, c.together))]
        for k in range(len(curves.final.alone))
    ]
    return Folded(f"{curves.metric.title}: the figures", [Table(header, rows)])


def traces(facts: Facts) -> Section:
    """Loss, potential, groups near zero, rate and noise of both stages."""
    blocks: list[Block] = [
        Paragraph(
            "The potential is the loss plus what the prior adds; a chain samples well when it "
            "neither falls nor rises after burn-in. A group near zero is one within the width in "
            "which prior and noise would leave it if the data said nothing. Where the noise is "
            "strong or the prior weak, that width is large and says little."
        )
    ]
    if not facts.traces:
        blocks.append(Paragraph("The run's folder holds no trace of its stages."))
    for trace in facts.traces:
        blocks += [Heading(_heading(trace)), Grid(_trace_charts(trace))]
        if trace.undone:
            blocks.append(_rollbacks(trace.undone))
    return Section("traces", "The stages, epoch by epoch", blocks)


def _rollbacks(undone: Sequence[Undone]) -> Folded:
    header = ["Chain", "Epoch", "What happened", "Back to epoch", "Rate ×"]
    rows = [
        [f"{s.chain + 1}", f"{s.epoch:.2f}", s.reason, f"{s.back_to}", f"{s.lr_factor:.3g}"]
        for s in undone
    ]
    return Folded(f"Rollbacks: {len(rows)}", [Table(header, rows, texts=(0, 2))])


def _heading(trace: StageTrace) -> str:
    count = len(trace.chains)
    if trace.stage == "chain":
        return "Stage 1: the chain" if count == 1 else f"Stage 1: {count} chains"
    return "Stage 2: retraining" if count == 1 else f"Stage 2: retraining, {count} members"


def _trace_charts(trace: StageTrace) -> list[Figure]:
    wanted: tuple[tuple[str, tuple[str, ...], float | None], ...] = (
        ("Loss and potential", ("loss", "potential"), None),
        ("Share of groups near zero", ("near_zero",), 0.0),
        ("Learning rate", ("lr",), 0.0),
        ("Noise ÷ gradient step", ("noise",), None),
    )
    if any(chain.changes_cost for chain in trace.chains):
        wanted += (
            ("FLOPs of an epoch, the first = 1", ("flops",), 0.0),
            ("Seconds of an epoch", ("seconds",), 0.0),
        )
    charts = []
    for title, fields, low in wanted:
        values = [v for c in trace.chains for f in fields for v in getattr(c, f)]
        known = [v for v in values if math.isfinite(v)]
        if known and (any(known) or "noise" not in fields):
            log = low is None and is_wide(known)
            charts.append(_trace_chart(trace, title, fields, low=low, log=log))
    return charts


def _trace_chart(
    trace: StageTrace, title: str, fields: tuple[str, ...], *, low: float | None, log: bool
) -> Figure:
    longest: ChainTrace = max(trace.chains, key=lambda chain: len(chain.epochs))
    single = len(trace.chains) == 1
    who = "chain" if trace.stage == "chain" else "member"
    lines = []
    for tone, field in enumerate(fields):
        for chain in trace.chains:
            own = dict(zip(chain.epochs, getattr(chain, field), strict=True))
            name = field.replace("_", " ") + ("" if single else f", {who} {chain.number + 1}")
            label = field if len(fields) > 1 and chain is trace.chains[-1] else ""
            values = tuple(own.get(epoch, math.nan) for epoch in longest.epochs)
            lines.append(Line(name, values, tone, faint=not single, label=label))
    marks = [Mark(trace.burn_in, "burn-in")] if trace.burn_in else []
    marks += [
        Mark(s.epoch, "↩", f"rolled back to epoch {s.back_to}: {s.reason}") for s in trace.undone
    ]
    last = ", ".join(
        f"{field.replace('_', ' ')} {figure(getattr(longest, field)[-1])}" for field in fields
    )
    drawing = line_chart(
        title,
        f"Over {longest.epochs[-1]} epochs; at the end {last}.",
        longest.epochs,
        lines,
        x_label="Epoch",
        y_label="",
        marks=marks,
        events=trace.sampled if "loss" in fields else (),
        log=log,
        low=low,
    )
    marked = "Triangles: samples were taken. " if trace.sampled and "loss" in fields else ""
    undone = "Where a divergence was undone stands ↩. " if trace.undone else ""
    return Figure(title, drawing, f"{marked}{undone}At the end: {last}.")
