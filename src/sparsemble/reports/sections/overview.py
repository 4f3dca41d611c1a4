"""The run in short: verdict, main figures, comparison; then what should be changed."""

from __future__ import annotations

from sparsemble.pages.blocks import Block, Cards, Fragment, Paragraph, Section, Table
from sparsemble.pages.numbers import count, duration, figure, size
from sparsemble.pages.render import render
from sparsemble.reports.facts import Facts
from sparsemble.reports.measures.summary import Contender, Summary


def overview(facts: Facts) -> Section:
    """Verdict, figures at a glance, and the comparison as a table."""
    summary = facts.summary
    measured = (
        f"Error and its like on {summary.measured_on}"
        if summary.kind == "classifiers"
        else "Perplexities of the text's parts"
    )
    blocks: list[Block] = [
        Paragraph(summary.verdict, f"verdict {summary.outcome if summary.clear else ''}"),
        _cards(facts),
        Paragraph(f"{measured}; costs as multiples of one dense network.", "soft"),
        _comparison(summary),
    ]
    if summary.unknown:
        parts = ", ".join(f"{n:,} of the {part} text" for part, n in summary.unknown.items())
        blocks.append(Paragraph(f"Words that the vocabulary lacks were read as <unk>: {parts}."))
    return Section("in-short", "In short", blocks)


def _cards(facts: Facts) -> Cards:
    summary, sizes = facts.summary, facts.sizes
    own, other = summary.contenders[:2]
    main, dense = summary.main, sizes.dense
    weights = count(sum(member.parameters for member in sizes.members))
    flops = count(sum(member.total_flops for member in sizes.members))
    floor = "" if summary.floor is None else f"; the source's own: {figure(summary.floor)}"
    seconds = summary.seconds
    return Cards(
        [
            (
                summary.metrics[main],
                figure(own.figures[main]),
                f"{other.name}: {figure(other.figures[main])}{floor}",
            ),
            (
                "Weights",
                f"{own.parameters:.2f}×",
                f"{weights} in all, {count(dense.parameters)} in one dense network",
            ),
            (
                "Operations",
                f"{own.flops:.2f}×",
                f"{flops} FLOPs an example, {count(dense.total_flops)} dense",
            ),
            (
                "On disk",
                size(own.disk_bytes or 0),
                f"the saved ensemble; one dense network takes {size(sizes.dense_bytes)}",
            ),
            (
                "Training",
                duration(sum(seconds.values())),
                ", ".join(f"{stage} {duration(s)}" for stage, s in seconds.items()),
            ),
        ]
    )


def _comparison(summary: Summary) -> Table:
    header = ["", "Networks", *summary.metrics, "Weights", "FLOPs", "On disk"]
    return Table(header, [_row(contender) for contender in summary.contenders], lead=True)


def _row(contender: Contender) -> list[str]:
    return [
        contender.name,
        str(contender.networks),
        *map(figure, contender.figures),
        f"{contender.parameters:.2f}×",
        f"{contender.flops:.2f}×",
        "–" if contender.disk_bytes is None else size(contender.disk_bytes),
    ]


def advice(facts: Facts) -> Section:
    """What the run says about its settings."""
    answers = facts.advice
    wanting = sum(answer.verdict == "attention" for answer in answers)
    lead = (
        f"{wanting} of {len(answers)} answers ask for a change; they come first."
        if wanting
        else "Nothing asks for a change."
    )
    listed = Fragment(render("advice.html", answers=answers))
    return Section("advice", "What to change", [Paragraph(lead), listed])
