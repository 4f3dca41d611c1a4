"""Figures 4a, 4b and 5 of what has been run, and what shedding saves along a chain.

They are drawn from result files; Figure 5 needs saved ensembles, shedding the trace of its run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from paper.figure4b import EVERY, Curves, Point, read_curves
from paper.ptb import ROWS, SizeName, curves_file, recipe_name, results_in
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.pages.charts import Line, Mark, line_chart
from sparsemble.pages.document import chart_file
from sparsemble.pages.drawing import WIDTH, svg
from sparsemble.pages.images import data_uri, ink_png
from sparsemble.pages.shapes import word
from sparsemble.reports.measures.patterns import MatrixPictures, pictures_of
from sparsemble.results import Result
from sparsemble.results.curves import Course, course_of, draw_courses, result_course
from sparsemble.runs import RunFolder

METHODS = {row.recipe: row.method for row in ROWS}
SHORT = {row.recipe: row.short or row.recipe for row in ROWS}
GROUPINGS = {"untied": "Untied weights", "tied": "Tied weights", "iss": "ISS"}
_GATES = 4
_BESIDE = 2
"""Matrices of Figure 5 beside each other: what a layer reads, and what it carries."""


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
        "figure5": _patterns(size, work),
        "shedding": _shedding(size, work),
    }
    return {
        f"ptb-{size}-{name}.svg": None if chart is None else chart_file(chart)
        for name, chart in drawn.items()
    }


def _along_learning(
    size: SizeName, results: Mapping[str, Sequence[Result]], work: Path
) -> Markup | None:
    """Figure 4a: the first row whose samples were pruned and retrained."""
    for row in dict.fromkeys(row.recipe for row in ROWS):
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
    for folder in _run_folders(row, size, work):
        try:
            yield course_of(folder)
        except CorruptFileError:
            raise
        except InputError:
            continue  # no sample yet


def _run_folders(row: str, size: SizeName, work: Path) -> list[Path]:
    """The runs of a row, those that are finished first."""
    folders = sorted(work.glob(f"{recipe_name(row, size)}-seed*"))
    begun = [folder for folder in folders if RunFolder(folder).is_begun]
    return sorted(begun, key=lambda folder: not RunFolder(folder).result.exists())


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


def _patterns(size: SizeName, work: Path) -> Markup | None:
    """Figure 5: the recurrent layers' matrices of one member for every way to group weights."""
    shown: dict[str, list[MatrixPictures]] = {}
    for row in METHODS:
        for folder in _run_folders(row, size, work):
            recipe, saved = RunFolder(folder).recipe(), RunFolder(folder).ensemble
            grouping = str(recipe.grouping)
            if recipe.prune is None or grouping in shown or not saved.is_dir():
                continue
            member = Ensemble.load(saved)[0]
            layout = member.layout.with_sizes(member.origin.sizes)
            pictures = pictures_of(member, layout, None)
            shown[grouping] = [p for p in pictures if p.tiles == _GATES]
    ordered = {title: shown[key] for key, title in GROUPINGS.items() if key in shown}
    return _picture(ordered) if ordered else None


def _shedding(size: SizeName, work: Path) -> Markup | None:
    """What an epoch costs along the first chain that shed units, beside its first epoch."""
    for folder in _run_folders("shedding", size, work):
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


def _picture(patterns: Mapping[str, Sequence[MatrixPictures]]) -> Markup:
    """The matrices of every grouping, a layer in a row."""
    shapes, top, wide = [], 0.0, WIDTH / _BESIDE - 8
    image = Markup(
        '<rect x="{0:.6g}" y="{1:.6g}" width="{2:.6g}" height="{3:.6g}" style="fill:#f7ecc9"/>'
        '<image href="{4}" x="{0:.6g}" y="{1:.6g}" width="{2:.6g}" height="{3:.6g}" '
        'preserveAspectRatio="none" style="image-rendering:pixelated"/>'
    )
    for title, matrices in patterns.items():
        kept = sum(m.kept * m.shape[0] * m.shape[1] for m in matrices)
        share = kept / sum(m.shape[0] * m.shape[1] for m in matrices)
        shapes.append(
            word(f"{title}: {100 * share:.0f} % of these weights left", "name", 4, top + 16)
        )
        top += 26
        for first in range(0, len(matrices), _BESIDE):
            beside = matrices[first : first + _BESIDE]
            # As in the paper, with the gates beside each other.
            heights = [wide * m.shape[1] / m.shape[0] for m in beside]
            for place, (matrix, high) in enumerate(zip(beside, heights, strict=True)):
                levels = data_uri(ink_png(matrix.pruned.levels.T))
                shapes.append(image.format(4 + place * (wide + 8), top, wide, high, levels))
            top += max(heights) + 8
        top += 8
    about = "; ".join(f"{title}: {len(m)} matrices" for title, m in patterns.items())
    return svg("Sparsity patterns of one member's recurrent layers", about, shapes, height=top)
