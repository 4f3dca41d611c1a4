"""The run in short: verdict, quality against cost, main figures; then what should be changed."""

from __future__ import annotations

from sparsemble.pages.blocks import Fragment, Section, Table
from sparsemble.pages.numbers import figure, size
from sparsemble.pages.render import render
from sparsemble.reports.facts import Facts
from sparsemble.reports.measures.summary import Contender
from sparsemble.reports.sections.beside import price_charts


def overview(facts: Facts) -> Section:
    """Verdict, figures at a glance, and the comparison as a table."""
    summary = facts.summary
    header = ["", "Networks", *summary.metrics, "Weights", "FLOPs", "On disk"]
    rows = [_row(contender) for contender in summary.contenders]
    judged, priced = facts.verdict, facts.prices
    outcome = summary.outcome if summary.clear else ""
    if judged is not None:
        outcome = "better" if judged.is_kept else "worse"
    shown = render(
        "reports/sections/overview.html",
        summary=summary,
        verdict=summary.verdict if judged is None else judged.text,
        outcome=outcome,
        charts=None if priced is None else price_charts(priced),
        sizes=facts.sizes,
        comparison=Table(header, rows, lead=True),
    )
    return Section("in-short", "In short", [Fragment(shown)])


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
    shown = render("reports/sections/advice.html", answers=facts.advice)
    return Section("advice", "What to change", [Fragment(shown)])
