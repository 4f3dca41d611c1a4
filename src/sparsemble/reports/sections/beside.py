"""A run for a budget: the verdict beside a dense network, and what was chosen among."""

from __future__ import annotations

from sparsemble.pages.blocks import Block, Paragraph, Section, Table
from sparsemble.results.result import Result
from sparsemble.results.verdict import Verdict


def beside(verdict: Verdict | None, result: Result) -> Section | None:
    """Both, as far as they are there; `None` for other runs."""
    blocks: list[Block] = []
    if verdict is not None:
        blocks += [Paragraph(verdict.text), _figures(verdict)]
    if result.candidates:
        blocks += [
            Paragraph(
                "What was compared on validation data: more members, or retraining, were taken if "
                "they did better by more than the standard error of the difference."
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
