"""Figures 4a and 4b of any run: its metric along the learning, and against the number of members.

Every stage measures its networks on validation data while it goes on, each alone and together with
those before it. Run folders hold that in their traces, result files in a list; runs that are under
way show what there is. A network stands where the chain was when its sample was taken: after so
many epochs, those of earlier chains counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from sparsemble.errors import CorruptFileError, InputError
from sparsemble.pages.blocks import Figure, Grid, Paragraph, Section
from sparsemble.pages.charts import Line, is_wide, line_chart
from sparsemble.pages.document import charts_file, document
from sparsemble.pages.numbers import figure
from sparsemble.recipes import Recipe
from sparsemble.results.result import Result, read_result
from sparsemble.runs.folder import RunFolder
from sparsemble.stages import SampleRecord
from sparsemble.store import write_text
from sparsemble.tasks import Metric

TONES = {"sampled": 1, "pruned": 3, "retrained": 2}
_COLOURS = 6
_FINE = 10_000
"""Steps to which the end of a cycle is known."""


@dataclass(frozen=True)
class StageCourse:
    """One stage: each network alone, and the first k together, by the epochs of the chain."""

    name: str
    epochs: tuple[float, ...]
    alone: tuple[float, ...]
    together: tuple[float, ...]


@dataclass(frozen=True)
class Course:
    """How a run went: sampled, pruned and retrained networks, as far as it has them."""

    name: str
    metric: Metric
    measured_on: str
    stages: tuple[StageCourse, ...]

    @property
    def final(self) -> StageCourse:
        """The stage that the run has come to."""
        return self.stages[-1]


def course_of(run: Path, code: Sequence[str] = ()) -> Course:
    """The course of a run, by its folder or by its result file.

    Args:
        run: The folder of a run, which may be under way, or a result file.
        code: Names what its recipe may import.
    """
    if not run.is_dir():
        return result_course(read_result(run, code), str(run))
    folder = RunFolder(run, code=code)
    recipe = folder.recipe()
    result = read_result(folder.result, code) if folder.result.is_file() else None
    stages = [folder.stage(name) for name in _after(recipe, result)]
    records = folder.chain.history(recipe.chain.chains).samples
    for stage in stages:
        records = records + stage.measured()
    return _course(str(run), recipe, records, result)


def courses_of(runs: Sequence[Path], code: Sequence[str] = ()) -> list[Course]:
    """The courses of several runs, by their folders where recipes have the same name."""
    found = [course_of(run, code) for run in runs]
    names = [course.name for course in found]
    if len(set(names)) == len(names):
        return found
    return [replace(course, name=str(run)) for course, run in zip(found, runs, strict=True)]


def result_course(result: Result, source: str) -> Course:
    """The course of a run, by its result, which comes from somewhere."""
    return _course(source, result.recipe, result.learning, result)


def _after(recipe: Recipe, result: Result | None) -> dict[str, str]:
    """The stages after the chain that made the ensemble, and what they left it."""
    if recipe.choose:
        if result is None or result.chosen is None:
            return {}  # nothing comes after the chain, or nothing was chosen yet
        if not result.is_retrained:
            return {result.stage("pruned-at-once"): "pruned"}
        return {result.stage("pruned"): "pruned", result.stage("retrain"): "retrained"}
    pruned = {} if recipe.prune is None else {"pruned": "pruned"}
    return pruned | ({} if recipe.retrain is None else {"retrain": "retrained"})


def _course(
    source: str, recipe: Recipe, records: Sequence[SampleRecord], result: Result | None
) -> Course:
    wanted = {"chain": "sampled"} | _after(recipe, result)
    by_stage: dict[str, list[SampleRecord]] = {}
    for record in records:
        if record.stage in wanted:
            by_stage.setdefault(wanted[record.stage], []).append(record)
    if "sampled" not in by_stage:
        raise InputError(
            f"{source} has measured no network yet; wait for its first sample, or run it again "
            "with this version"
        )
    first = by_stage["sampled"][0]
    known = [] if result is None else result.metrics
    known = [*known, *([] if recipe.task is None else recipe.task.metrics)]
    metric = next((m for m in known if m.key == first.metric), Metric(first.metric, first.metric))
    # Retraining does not know the samples its members were made of; their pruning does.
    made_of = {"retrained": by_stage.get("pruned") or by_stage["sampled"]}
    if len(by_stage.get("retrained", ())) > len(made_of["retrained"]):
        raise CorruptFileError(f"{source} measured more networks than it was made of")
    if min(record.step for record in by_stage["sampled"]) < 1:
        raise CorruptFileError(f"{source} measured a sample before the first step")
    steps = _steps_per_epoch(recipe, by_stage["sampled"])
    stages = tuple(
        StageCourse(
            name,
            tuple(
                record.chain * recipe.chain.epochs + record.step / steps
                for record in made_of.get(name, by_stage[name])[: len(by_stage[name])]
            ),
            tuple(metric.factor * record.alone for record in by_stage[name]),
            tuple(metric.factor * record.together for record in by_stage[name]),
        )
        for name in ("sampled", "pruned", "retrained")
        if name in by_stage
    )
    return Course(recipe.name, metric, first.on, stages)


def _steps_per_epoch(recipe: Recipe, samples: Sequence[SampleRecord]) -> float:
    """By when the first sample was taken."""
    chain, first = recipe.chain, min(record.step for record in samples)
    if chain.collection == "backward":
        assert chain.samples is not None
        return (first + chain.samples - 1) / chain.epochs
    # Cycles may end within an epoch: as if it had many steps.
    return first * _FINE / chain.steps_to_collect(_FINE)[0]


def draw_courses(courses: Sequence[Course], of: str = "") -> tuple[Markup, Markup]:
    """The metric along the learning, and against the number of members.

    Of one run all stages are drawn, of several only what each has come to; titles name what they
    are `of`.
    """
    _check_alike(courses)
    drawn = _of_stages(courses[0]) if len(courses) == 1 else _of_runs(courses)
    metric, on = courses[0].metric, courses[0].measured_on
    whose = f"{of}: {metric.title}" if of else metric.title
    places = sorted({epoch for _, _, stage in drawn for epoch in stage.epochs})
    ends = ", ".join(f"{name} {figure(stage.together[-1])}" for name, _, stage in drawn)
    values = [v for _, _, stage in drawn for v in (*stage.alone, *stage.together)]
    low = 0.0 if min(values) == 0 else None
    log = is_wide(values)
    along = line_chart(
        f"{whose} along the learning, on the {on}",
        f"Dots are single networks, lines the first ones averaged. At the end: {ends}.",
        places,
        [line for name, tone, stage in drawn for line in _along(name, tone, stage, places)],
        x_label="Epochs",
        y_label=f"{metric.title}, {on}",
        log=log,
        low=low,
    )
    most = max(len(stage.together) for _, _, stage in drawn)
    numbers = range(1, most + 1)
    by_number = line_chart(
        f"{whose} against the number of members, on the {on}",
        f"At the end: {ends}.",
        numbers,
        [
            Line(name, _at(range(1, len(s.together) + 1), s.together, numbers), tone, label=name)
            for name, tone, s in drawn
        ],
        x_label="Members",
        y_label=f"{metric.title}, {on}",
        log=log,
        low=low,
    )
    return along, by_number


def write_courses(courses: Sequence[Course], path: Path) -> None:
    """Draw courses in an SVG file or, to be read out at the pointer, in an HTML file."""
    drawn = draw_courses(courses)
    if path.suffix == ".svg":
        write_text(path, charts_file(drawn))
        return
    names = ", ".join(dict.fromkeys(course.name for course in courses))
    titles = ("Along the learning", "Against the number of members")
    caption = f"On the {courses[0].measured_on}."
    charts = [Figure(title, chart, caption) for title, chart in zip(titles, drawn, strict=True)]
    blocks = [
        Paragraph(
            "Open dots are single networks, where the chain was when their samples were taken; "
            "lines are the averages of the first one, two, … of them."
        ),
        Grid(charts),
    ]
    section = Section("curves", "How it went", blocks)
    lead = f"{courses[0].metric.title} of single networks and of their averages"
    page = document(f"{names}: curves", [section], heading=names, lead=lead)
    write_text(path, page)


def _check_alike(courses: Sequence[Course]) -> None:
    first = courses[0]
    for course in courses[1:]:
        for what, own, other in (
            ("metrics", first.metric.key, course.metric.key),
            ("data", first.measured_on, course.measured_on),
        ):
            if own != other:
                raise InputError(
                    f"{first.name} and {course.name} were watched by different {what} ({own}, "
                    f"{other}): draw them in different pictures"
                )


def _of_stages(course: Course) -> list[tuple[str, int, StageCourse]]:
    return [(stage.name, TONES[stage.name], stage) for stage in course.stages]


def _of_runs(courses: Sequence[Course]) -> list[tuple[str, int, StageCourse]]:
    return [(course.name, k % _COLOURS, course.final) for k, course in enumerate(courses)]


def _along(name: str, tone: int, stage: StageCourse, places: Sequence[float]) -> Iterable[Line]:
    alone, together = (_at(stage.epochs, v, places) for v in (stage.alone, stage.together))
    yield Line(f"{name}, alone", alone, tone, dots=True, faint=True)
    yield Line(f"{name}, averaged", together, tone, label=name, joined=True)


def _at(
    own: Sequence[float], values: Sequence[float], places: Sequence[float]
) -> tuple[float, ...]:
    """Values at common places, not a number where there is none."""
    known = dict(zip(own, values, strict=True))
    return tuple(known.get(place, float("nan")) for place in places)
