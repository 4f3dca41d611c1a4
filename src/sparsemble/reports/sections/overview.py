"""The run in short: verdict, main figures, comparison; then what should be changed."""

from __future__ import annotations

from sparsemble.reports.facts import Facts
from sparsemble.reports.markup import Html, element, joined, table
from sparsemble.reports.measures.summary import Contender, Summary
from sparsemble.reports.numbers import count, figure, size
from sparsemble.reports.sections.parts import Section, said
from sparsemble.runs.pace import duration

_STATES = {"attention": "change something", "neutral": "not judged", "good": "good"}


def overview(facts: Facts) -> Section:
    """Verdict, figures at a glance, and the comparison as a table."""
    summary = facts.summary
    body = joined(
        [
            element(
                "p", summary.verdict, class_=f"verdict {summary.outcome if summary.clear else ''}"
            ),
            _cards(facts),
            _comparison(summary),
            *_unknown(summary),
        ]
    )
    return Section("in-short", "In short", body)


def _cards(facts: Facts) -> Html:
    summary, sizes = facts.summary, facts.sizes
    own, other = summary.contenders[:2]
    dense = sizes.dense
    best = summary.metrics[summary.main]
    floor = "" if summary.floor is None else f"; the source's own: {figure(summary.floor)}"
    cards = [
        (
            best,
            figure(own.figures[summary.main]),
            f"{other.name}: {figure(other.figures[summary.main])}{floor}",
        ),
        (
            "Weights",
            f"{own.parameters:.2f}×",
            f"{count(sum(m.parameters for m in sizes.members))} in all, "
            f"{count(dense.parameters)} in one dense network",
        ),
        (
            "Operations",
            f"{own.flops:.2f}×",
            f"{count(sum(m.total_flops for m in sizes.members))} FLOPs an example, "
            f"{count(dense.total_flops)} dense",
        ),
        (
            "On disk",
            size(own.disk_bytes or 0),
            f"the saved ensemble; one dense network takes {size(sizes.dense_bytes)}",
        ),
        (
            "Training",
            duration(sum(summary.seconds.values())),
            ", ".join(f"{stage} {duration(s)}" for stage, s in summary.seconds.items()),
        ),
    ]
    return element(
        "div",
        *(
            element(
                "dl",
                element("dt", name),
                element("dd", value),
                element("dd", note, class_="note"),
                class_="card",
            )
            for name, value, note in cards
        ),
        class_="cards",
    )


def _comparison(summary: Summary) -> Html:
    header = ["", "Networks", *summary.metrics, "Weights", "FLOPs", "On disk"]
    rows = [_row(contender) for contender in summary.contenders]
    caption = (
        f"Error and its like on {summary.measured_on}; costs as multiples of one dense network."
        if summary.kind == "classifiers"
        else "Perplexities of the text's parts; costs as multiples of one dense network."
    )
    return joined([element("p", caption, class_="soft"), table(header, rows, lead=True)])


def _row(contender: Contender) -> list[str]:
    return [
        contender.name,
        str(contender.networks),
        *map(figure, contender.figures),
        f"{contender.parameters:.2f}×",
        f"{contender.flops:.2f}×",
        "–" if contender.disk_bytes is None else size(contender.disk_bytes),
    ]


def _unknown(summary: Summary) -> list[Html]:
    if not summary.unknown:
        return []
    parts = ", ".join(f"{n:,} of the {part} text" for part, n in summary.unknown.items())
    return [said(f"Words that the vocabulary lacks were read as <unk>: {parts}.")]


def advice(facts: Facts) -> Section:
    """What the run says about its settings."""
    wanting = sum(answer.verdict == "attention" for answer in facts.advice)
    lead = (
        "Nothing asks for a change."
        if not wanting
        else f"{wanting} of {len(facts.advice)} answers ask for a change; they come first."
    )
    items = [
        element(
            "li",
            element(
                "div",
                element("b", _begun(answer.topic)),
                element("span", _STATES[answer.verdict], class_="state"),
            ),
            element(
                "div",
                _begun(answer.text),
                element("small", f"Judged on {answer.judged_on}.", class_="soft")
                if answer.judged_on
                else "",
            ),
            class_=answer.verdict,
        )
        for answer in facts.advice
    ]
    return Section(
        "advice", "What to change", joined([said(lead), element("ul", *items, class_="advice")])
    )


def _begun(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]
