"""What is left of the networks: pictures, sizes of groups and weights, units and costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from sparsemble.pages.blocks import Block, Figure, Folded, Fragment, Grid, Paragraph, Section, Table
from sparsemble.pages.charts import Bars, Mark, bar_chart
from sparsemble.pages.images import image_side
from sparsemble.pages.layers import layers_chart
from sparsemble.pages.numbers import count
from sparsemble.pages.render import render
from sparsemble.reports.facts import Facts
from sparsemble.reports.measures.patterns import DECADES, LEVELS
from sparsemble.reports.measures.sizes import NetworkSize, Sizes
from sparsemble.reports.measures.spreads import FamilySpread, Spreads

T = TypeVar("T")
_COLUMNS = 8
"""Layers that a table has columns for."""
_FAMILIES = 6
"""Families of groups shown at once; the others open on demand."""


def patterns(facts: Facts) -> Section:
    """Figure 5, a member at a time."""
    number = len(facts.sizes.members)
    shown = render(
        "reports/sections/patterns.html",
        members=facts.pictures,
        number=number,
        decades=DECADES,
        inputs=facts.readers,
        levels=None if facts.readers is None else _levels(facts.readers, number),
    )
    return Section("patterns", "Sparsity patterns", [Fragment(shown)])


def _levels(readers: tuple[int, ...], members: int) -> np.ndarray | None:
    """How many members read each input, as ink; nothing if that is no image, or all ink."""
    side = image_side((len(readers),))
    if side is None or 0 not in readers:
        return None
    return np.ceil(np.array(readers).reshape(side) * (LEVELS - 1) / members).astype(np.uint8)


def spreads(found: Spreads) -> Section:
    """Sizes of groups and weights of a sample."""
    charts = [_weights(found), *(_family(family, found) for family in found.families)]
    first, rest = charts[: 1 + _FAMILIES], charts[1 + _FAMILIES :]
    blocks: list[Block] = [
        Paragraph(
            f"Of the last sample (member {found.member}), before pruning. A group is shown by the "
            "typical size of its weights, ‖θ‖/√d, so that all families can be compared with the "
            "threshold that pruning uses. Sparsity comes for free where the groups fall into two "
            "heaps, one of them below the near-zero width."
        ),
        Grid(first),
    ]
    if rest:
        blocks.append(Folded(f"{len(rest)} more families", [Grid(rest)]))
    return Section("sizes", "Sizes of groups and weights", blocks)


def _weights(found: Spreads) -> Figure:
    marks = [
        Mark(math.log10(value), "pruned below" if k == 0 else "", f"{name}: {value:.3g}")
        for k, (name, value) in enumerate(found.thresholds.items())
        if value > 0
    ]
    total = sum(found.weights.counts)
    cut = ", ".join(f"{v:.2g} in {name}" for name, v in list(found.thresholds.items())[:4])
    drawing = bar_chart(
        "Sizes of the weights",
        f"{total:,} weights by magnitude. Pruning threshold: {cut or 'none'}.",
        [math.log10(edge) for edge in found.weights.edges],
        [Bars("weights", tuple(map(float, found.weights.counts)), 5)],
        x_label="Magnitude of a weight",
        y_label="Weights, root scale",
        marks=[*marks, *_near_zero(found)],
        powers=True,
        root=True,
    )
    held = "" if found.width is None else f" {100 * found.held:.1f} % of all lie near zero."
    return Figure("Weights", drawing, f"Pruning cuts below {cut or 'nothing'}.{held}")


def _family(family: FamilySpread, found: Spreads) -> Figure:
    near = "" if found.width is None else f" {family.near_zero} of {family.groups} are near zero."
    drawing = bar_chart(
        f"Sizes of the groups: {family.name}",
        f"{family.groups} groups of {family.size} weights.{near}",
        [math.log10(edge) for edge in family.histogram.edges],
        [Bars("groups", tuple(map(float, family.histogram.counts)), 0)],
        x_label="Size of a group's weights",
        y_label="Groups",
        marks=_near_zero(found),
        powers=True,
    )
    size = "one weight" if family.size == 1 else f"{family.size} weights"
    note = f"{family.groups} groups of {size} each.{near}"
    return Figure(f"Groups: {family.name}", drawing, note)


def _near_zero(found: Spreads) -> list[Mark]:
    width = found.width
    return [] if width is None else [Mark(math.log10(width), "near zero", f"{width:.3g}")]


def costs(facts: Facts) -> Section:
    """Tables 2 and 4."""
    sizes = facts.sizes
    lead = (
        "Weights are those left, biases not counted. FLOPs of a matrix are 2·rows·columns of the "
        "smallest part of it that holds all its weights."
    )
    if sizes.target_sparsity is not None:
        aim = f"Pruning aimed at {100 * sizes.target_sparsity:g} %; units that became useless went "
        lead = f"{aim}as well, so a little more is gone. {lead}"
    header = [
        "Network",
        "-".join(sizes.spaces) if len(sizes.spaces) <= _COLUMNS else "Units in all",
        "Weights",
        "Sparsity",
        *(f"FLOPs, {name}" for name in _shown(sizes.matrices)),
        "FLOPs in all",
        "of dense",
    ]
    dense = _row("dense network", sizes.dense, sizes)
    members = [_row(f"member {k}", one, sizes) for k, one in enumerate(sizes.members, 1)]
    blocks: list[Block] = [
        Paragraph(lead),
        _layers(sizes),
        Table(header, [dense, _totals(sizes)], texts=(0, 1)),
        Folded("Every member", [Table(header, [dense, *members], texts=(0, 1))]),
    ]
    return Section("structure", "Structure and cost", blocks)


def _shown(columns: Sequence[T]) -> Sequence[T]:
    """What a table has room for: of a deep network nothing of single layers."""
    return columns if len(columns) <= _COLUMNS else ()


def _layers(sizes: Sizes) -> Figure:
    staying = [layer for layer in sizes.layers if layer.reason]
    going = [layer for layer in sizes.layers if not layer.reason]
    left, of = sum(layer.left for layer in going), sum(layer.of for layer in going)
    note = f"Of {of:,} units that may go {left:,.0f} are left in a member, on average."
    if staying:
        why = {layer.reason: layer.name for layer in reversed(staying)}
        note += " Others stay: " + "; ".join(f"{name}, {reason}" for reason, name in why.items())
        note += "."
    drawing = layers_chart("Units of every layer", note, sizes.layers)
    return Figure("Units by layer", drawing, note)


def _row(name: str, one: NetworkSize, sizes: Sizes) -> list[str]:
    return [
        name,
        "-".join(map(str, one.units)) if len(one.units) <= _COLUMNS else f"{sum(one.units):,}",
        f"{one.parameters:,}",
        f"{100 * sizes.sparsity(one):.2f} %",
        *map(count, _shown(one.flops)),
        f"{one.total_flops:,}",
        f"{100 * one.total_flops / sizes.dense.total_flops:.0f} %",
    ]


def _totals(sizes: Sizes) -> list[str]:
    """What the members are on average."""
    number = len(sizes.members)

    def mean(values: list[int]) -> int:
        return round(sum(values) / number)

    average = NetworkSize(
        tuple(mean([m.units[k] for m in sizes.members]) for k in range(len(sizes.spaces))),
        mean([m.parameters for m in sizes.members]),
        tuple(mean([m.flops[k] for m in sizes.members]) for k in range(len(sizes.matrices))),
    )
    return _row(f"a member, mean of {number}", average, sizes)
