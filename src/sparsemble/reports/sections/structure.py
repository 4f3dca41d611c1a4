"""What is left of the networks: pictures, sizes of groups and weights, units and costs."""

from __future__ import annotations

import math

import numpy as np

from sparsemble.reports.charts import Bars, Mark, bar_chart, picture
from sparsemble.reports.facts import Facts
from sparsemble.reports.images import ink_png
from sparsemble.reports.markup import Html, element, joined, table
from sparsemble.reports.measures.classes import image_side
from sparsemble.reports.measures.patterns import DECADES, LEVELS, MatrixPictures
from sparsemble.reports.measures.sizes import NetworkSize, Sizes
from sparsemble.reports.measures.spreads import FamilySpread, Spreads
from sparsemble.reports.numbers import count
from sparsemble.reports.sections.parts import Section, folded, framed, said

_FAMILIES = 6
"""Families of groups shown at once; the others open on demand."""


def patterns(facts: Facts) -> Section:
    """Figure 5, a member at a time."""
    number, drawn = len(facts.sizes.members), len(facts.pictures)
    learned = facts.pictures[0][0].learned is not None
    parts = [
        said(
            "Every weight matrix, as pruned: ink where weights are left, blank where all are gone. "
            "Blank rows and columns are units that went; this is what makes a network faster, "
            "while scattered zeros only make it smaller.",
            "Beside it the sample it came from: the stronger the ink, the larger the weight, on a "
            f"scale of {DECADES} powers of ten below the largest."
            if learned
            else "",
        ),
        _scale(learned),
        element(
            "div",
            element("label", "Member", for_="member"),
            element(
                "select",
                *(element("option", str(k + 1), value=str(k)) for k in range(drawn)),
                id="member",
                data_chooses="member",
            ),
            element("span", f"the first {drawn} of {number} are drawn", class_="soft")
            if drawn < number
            else "",
            class_="picker",
        ),
    ]
    for k, matrices in enumerate(facts.pictures):
        parts.append(
            element(
                "div",
                *(_matrix(matrix, k + 1) for matrix in matrices),
                class_="matrices",
                data_among="member",
                data_item=str(k),
                hidden=k > 0,
            )
        )
    if facts.readers is not None:
        parts += _readers(facts.readers, number)
    return Section("patterns", "Sparsity patterns", joined(parts))


def _scale(learned: bool) -> Html:
    """The ink itself, in the colours it has on this page."""
    ends = ("small, or few left", "large, or all left") if learned else ("few left", "all left")
    shown = element("span", ends[0], element("i", class_="inks"), ends[1], class_="scale")
    return element("p", shown)


def _matrix(matrix: MatrixPictures, member: int) -> Html:
    rows, columns = matrix.shape
    high, wide = matrix.pruned.block
    about = f"{matrix.name} of member {member}, {rows} × {columns} weights"
    pair = []
    if matrix.learned is not None:
        shown = picture(ink_png(matrix.learned.levels), f"{about}, as learned", tiles=matrix.tiles)
        pair.append(element("div", shown, element("small", "as learned")))
    pruned = picture(ink_png(matrix.pruned.levels), f"{about}, as pruned", tiles=matrix.tiles)
    note = f"as pruned: {100 * matrix.kept:.1f} % left"
    pair.append(element("div", pruned, element("small", note)))
    tiles = f" ({matrix.tiles} gates)" if matrix.tiles > 1 else ""
    dots = "" if (high, wide) == (1, 1) else f" A dot stands for {high} × {wide} weights."
    return framed(
        f"{matrix.reads} → {matrix.makes}",
        element("div", *pair, class_="pair"),
        f"{matrix.name}, {rows} × {columns}; rows: {matrix.rows}{tiles}, columns: "
        f"{matrix.columns}.{dots}",
    )


def _readers(readers: tuple[int, ...], members: int) -> list[Html]:
    side = image_side((len(readers),))
    unread = sum(n == 0 for n in readers)
    some = f"{unread} of {len(readers)} inputs are read by no member"
    if side is None or unread == 0:
        every = sum(n == members for n in readers)
        return [said(f"{some}, {every} by all of them.")]
    levels = np.ceil(np.array(readers).reshape(side) * (LEVELS - 1) / members).astype(np.uint8)
    drawn = picture(ink_png(levels), f"Inputs by how many members read them; {some}", square=True)
    shown = framed("Inputs that are read", drawn, f"{some}; full ink: read by all of them.")
    return [element("div", shown, class_="narrow")]


def spreads(facts: Facts) -> Section | None:
    """Sizes of groups and weights of a sample."""
    found = facts.spreads
    if found is None:
        return None
    parts = [
        said(
            f"Of the last sample (member {found.member}), before pruning. A group is shown by the "
            "typical size of its weights, ‖θ‖/√d, so that all families can be compared with the "
            "threshold that pruning uses. Sparsity comes for free where the groups fall into two "
            "heaps, one of them below the near-zero width.",
        )
    ]
    charts = [_family(family, found) for family in found.families]
    parts.append(element("div", _weights(found), *charts[:_FAMILIES], class_="grid"))
    if charts[_FAMILIES:]:
        rest = element("div", *charts[_FAMILIES:], class_="grid")
        parts.append(folded(f"{len(charts) - _FAMILIES} more families", rest))
    return Section("sizes", "Sizes of groups and weights", joined(parts))


def _weights(found: Spreads) -> Html:
    marks = [
        Mark(math.log10(value), "pruned below" if k == 0 else "", f"{name}: {value:.3g}")
        for k, (name, value) in enumerate(found.thresholds.items())
        if value > 0
    ]
    if found.width is not None:
        marks.append(Mark(math.log10(found.width), "near zero", f"{found.width:.3g}"))
    total = sum(found.weights.counts)
    cut = ", ".join(f"{v:.2g} in {name}" for name, v in list(found.thresholds.items())[:4])
    drawing = bar_chart(
        "Sizes of the weights",
        f"{total:,} weights by magnitude. Pruning threshold: {cut or 'none'}.",
        [math.log10(edge) for edge in found.weights.edges],
        [Bars("weights", tuple(map(float, found.weights.counts)), 5)],
        x_label="Magnitude of a weight",
        y_label="Weights, root scale",
        marks=marks,
        powers=True,
        root=True,
    )
    held = "" if found.width is None else f" {100 * found.held:.1f} % of all lie near zero."
    return framed("Weights", drawing, f"Pruning cuts below {cut or 'nothing'}.{held}")


def _family(family: FamilySpread, found: Spreads) -> Html:
    marks = []
    if found.width is not None:
        marks.append(Mark(math.log10(found.width), "near zero", f"{found.width:.3g}"))
    near = "" if found.width is None else f" {family.near_zero} of {family.groups} are near zero."
    drawing = bar_chart(
        f"Sizes of the groups: {family.name}",
        f"{family.groups} groups of {family.size} weights.{near}",
        [math.log10(edge) for edge in family.histogram.edges],
        [Bars("groups", tuple(map(float, family.histogram.counts)), 0)],
        x_label="Size of a group's weights",
        y_label="Groups",
        marks=marks,
        powers=True,
    )
    note = f"{family.groups} groups of {family.size} weights each.{near}"
    return framed(f"Groups: {family.name}", drawing, note)


def costs(facts: Facts) -> Section:
    """Tables 2 and 4."""
    sizes = facts.sizes
    aim = (
        ""
        if sizes.target_sparsity is None
        else (
            f"Pruning aimed at {100 * sizes.target_sparsity:g} %; units that became useless went "
            "as well, so a little more is gone. "
        )
    )
    lead = (
        f"{aim}Weights are those left, biases not counted. FLOPs of a matrix are 2·rows·columns "
        "of the smallest part of it that holds all its weights."
    )
    header = [
        "Network",
        "-".join(sizes.spaces),
        "Weights",
        "Sparsity",
        *(f"FLOPs, {name}" for name in sizes.matrices),
        "FLOPs in all",
        "of dense",
    ]
    dense = _row("dense network", sizes.dense, sizes)
    members = [_row(f"member {k}", one, sizes) for k, one in enumerate(sizes.members, 1)]
    shown = table(header, [dense, _totals(sizes)], texts=(0, 1))
    each = folded("Every member", table(header, [dense, *members], texts=(0, 1)))
    return Section("structure", "Structure and cost", joined([said(lead), shown, each]))


def _row(name: str, one: NetworkSize, sizes: Sizes) -> list[str]:
    return [
        name,
        "-".join(map(str, one.units)),
        f"{one.parameters:,}",
        f"{100 * sizes.sparsity(one):.2f} %",
        *map(count, one.flops),
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
