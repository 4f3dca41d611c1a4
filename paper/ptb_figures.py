"""Figures 4a, 4b and 5 of what has been run, and what shedding saves along a chain.

They are drawn from result files and what is kept beside them; shedding from the trace of its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from paper.figure4b import EVERY, Curves, Point, read_curves
from paper.figure5 import draw_patterns
from paper.ptb import ROWS, SizeName, curves_file, results_in, run_folders
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.pages.charts import Line, Mark, line_chart
from sparsemble.pages.document import chart_file
from sparsemble.results import Result
from sparsemble.results.curves import Course, course_of, draw_courses, result_course
from sparsemble.runs import RunFolder

METHODS = {row.recipe: row.method for row in ROWS}
SHORT = {row.recipe: row.short or row.recipe for row in ROWS}


def figures(size: SizeName, out: Path, work: Path) -> dict[str, str | None]:
    """Every figure as an SVG file, or `None` where nothing that it shows has been run.

    Args:
        size: Of the networks.
        out: Where result files lie.
        work: Where runs lie, finished or under way.
    """
    found = results_in(out, size)
    drawn = {
        "figure4a": _along_learning(size, found, work),
        "figure4b": _by_number(size, found, out),
        "figure5": draw_patterns(size, out),
        "shedding": _shedding(size, work),
    }
    return {
        f"ptb-{size}-{name}.svg": None if chart is None else chart_file(chart)
        for name, chart in drawn.items()
    }


def _along_learning(
    size: SizeName, results: Mapping[str, Sequence[Result]], work: Path
) -> Markup | None:
    """Figure 4a: the paper's row, or else the first whose samples were pruned and retrained."""
    for row in dict.fromkeys(["sgld-gsp-pr", *METHODS]):
        for course in _courses(row, size, results, work):
            if course.final.name == "retrained" and len(course.final.alone) > 1:
                return draw_courses([course], of=METHODS[row])[0]
    return None


def _courses(
    row: str, size: SizeName, results: Mapping[str, Sequence[Result]], work: Path
) -> Iterator[Course]:
    """How a row went, by its results, or by its runs; older ones do not tell."""
    for result in results.get(row, ()):
        if result.learning:
            yield result_course(result, result.recipe.name)
    for folder in run_folders(row, size, work):
        try:
            yield course_of(folder)
        except CorruptFileError:
            raise
        except InputError:
            continue  # no sample yet


def _by_number(size: SizeName, results: Mapping[str, Sequence[Result]], out: Path) -> Markup | None:
    """Figure 4b: by its own runs, or else all rows of several retrained or dense networks."""
    if (own := curves_file(size, out)).is_file():
        lines = _of_curves(read_curves(own))
    else:
        lines = _of_rows(results)
    if not lines:
        return None
    dense = results.get("sgd-dropout") or results.get("sgd") or []
    levels = [Mark(dense[0].scores["validation"]["perplexity"], "one dense")] if dense else []
    members = range(1, 1 + max(max(known) for known in lines.values()))
    return line_chart(
        "Perplexity on the validation text against the number of members",
        "; ".join(f"{name}: {known[max(known)]:.1f}" for name, known in lines.items()),
        members,
        [
            Line(
                name,
                tuple(known.get(k, float("nan")) for k in members),
                tone,
                label=name,
                joined=True,
            )
            for tone, (name, known) in enumerate(lines.items())
        ],
        x_label="Members",
        y_label="Dev perplexity",
        levels=levels,
    )


def _of_curves(curves: Curves) -> dict[str, dict[int, float]]:
    named: dict[str, list[Point]] = {
        "uniform": curves.uniform,
        f"every {EVERY}": curves.every_six,
        "independent": curves.independent,
    }
    return {
        name: {point.members: point.perplexity for point in points}
        for name, points in named.items()
        if points
    }


def _of_rows(results: Mapping[str, Sequence[Result]]) -> dict[str, dict[int, float]]:
    lines = {}
    for row in METHODS:
        for result in results.get(row, ())[:1]:
            curve = result.scores["validation"].curve["perplexity"]
            retrained = result.recipe.prune is not None and result.recipe.retrain is not None
            if len(curve) > 1 and (retrained or result.recipe.chain.chains > 1):
                lines[SHORT[row]] = dict(enumerate(curve, 1))
    return lines


def _shedding(size: SizeName, work: Path) -> Markup | None:
    """What an epoch costs along the first chain that shed units, beside its first epoch."""
    for folder in run_folders("shedding", size, work):
        history = RunFolder(folder).chain.history()
        if not history.sheds:
            continue
        first, epochs = history.epochs[0], [record.epoch for record in history.epochs]
        flops = tuple(record.flops / first.flops for record in history.epochs)
        seconds = tuple(record.seconds / first.seconds for record in history.epochs)
        left = history.sheds[-1]
        return line_chart(
            "What an epoch costs as units leave the chain, the first = 1",
            f"Of the whole network's FLOPs {left.flops:.2f} are left after epoch {left.epoch}.",
            epochs,
            [
                Line("FLOPs", flops, 0, label="FLOPs", joined=True),
                Line("seconds", seconds, 1, label="seconds", joined=True),
            ],
            x_label="Epoch",
            y_label="Beside the first",
            low=0.0,
        )
    return None
