"""Everything a report shows, collected from a finished run as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemble.ensemble.verdict import Verdict, read_verdict
from sparsemble.learning.findings import Finding
from sparsemble.learning.spending import TrainingCost
from sparsemble.pages.blocks import Section
from sparsemble.recipes.baselines import is_dense
from sparsemble.reports.measures.advice import advise
from sparsemble.reports.measures.background import Background, background
from sparsemble.reports.measures.curves import Curves, stage_curves
from sparsemble.reports.measures.patterns import MatrixPictures, input_readers, member_pictures
from sparsemble.reports.measures.prices import Prices, prices
from sparsemble.reports.measures.sizes import Sizes, member_sizes
from sparsemble.reports.measures.spreads import Spreads, sample_spreads
from sparsemble.reports.measures.summary import Summary, run_summary, unlike_data
from sparsemble.reports.measures.traces import StageTrace, stage_traces
from sparsemble.reports.opening import FinishedRun, open_run
from sparsemble.results.result import Result


@dataclass(frozen=True)
class Facts:
    """What a report shows; `predictions` are the task's own sections."""

    summary: Summary
    advice: tuple[Finding, ...]
    curves: tuple[Curves, ...]
    traces: tuple[StageTrace, ...]
    pictures: tuple[tuple[MatrixPictures, ...], ...]
    readers: tuple[int, ...] | None
    sizes: Sizes
    spreads: Spreads | None
    predictions: tuple[Section, ...]
    background: Background
    has_samples: bool
    verdict: Verdict | None
    prices: Prices | None
    result: Result
    training: TrainingCost | None


def collect(
    path: Path,
    *,
    samples_folder: Path | None = None,
    data_folder: Path | None = None,
    code: Sequence[str] = (),
    files: Sequence[Path] = (),
    without: Path | None = None,
) -> Facts:
    """Measure a finished run; anything that is none raises `InputError`.

    Args:
        path: Its folder.
        samples_folder: Where its samples lie, if runs share them.
        data_folder: Where data sets lie.
        code: The user's own functions that its recipe may call.
        files: Files, or folders that hold them, which its recipe may read data from.
        without: A file of the folder not to be listed: the report that is being written.
    """
    run = open_run(
        path, samples_folder=samples_folder, data_folder=data_folder, code=code, files=files
    )
    curves = stage_curves(run)
    score = run.result.scores[run.shown_part]
    spreads = sample_spreads(run)
    summary = run_summary(run)
    return Facts(
        summary,
        advise(
            run.result.findings,
            curves[0],
            spreads,
            run.recipe,
            diversity=run.task.diversity_text(score.diversity, "unseen data"),
            too_alike=run.task.too_alike(score),
            judged_on=_not_to_choose_on(run),
        ),
        curves,
        stage_traces(run),
        member_pictures(run),
        input_readers(run),
        member_sizes(run),
        spreads,
        tuple(run.task.sections(run.ensemble, run.held, run.recipe.seed)),
        background(run, without=without),
        bool(run.sample_files),
        read_verdict(run.folder.verdict),
        prices(run),
        run.result,
        _training(run),
    )


def _training(run: FinishedRun) -> TrainingCost | None:
    """What the run cost, beside dense networks that were trained on the same data, if there are."""
    own, other = run.result.training, run.baseline
    if own is None or other is None or other.training is None:
        return own
    if not is_dense(other.recipe) or unlike_data(run):
        return own
    return own.beside(other.training, len(other.structures))


def _not_to_choose_on(run: FinishedRun) -> str:
    """What figures come from if it is a test set, and what to choose settings on."""
    if run.shown_part != "test":
        return ""
    return f"{run.held.name}: choose settings on validation data, data.validation"
