"""Everything a report shows, collected from a finished run as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemble.data import Corpus
from sparsemble.ensemble import Ensemble, LanguageEnsemble
from sparsemble.ensemble.metrics import disagreement
from sparsemble.recipes.models import CustomData, ImageData
from sparsemble.reports.measures.advice import Advice, advise
from sparsemble.reports.measures.background import Background, background
from sparsemble.reports.measures.classes import ClassFacts, class_facts
from sparsemble.reports.measures.curves import Curves, class_curves, text_curves
from sparsemble.reports.measures.patterns import MatrixPictures, input_readers, member_pictures
from sparsemble.reports.measures.sizes import Sizes, member_sizes
from sparsemble.reports.measures.spreads import Spreads, sample_spreads
from sparsemble.reports.measures.summary import Summary, measured_on, run_summary
from sparsemble.reports.measures.traces import StageTrace, stage_traces
from sparsemble.reports.measures.words import TextFacts, text_facts
from sparsemble.reports.opening import FinishedRun, open_run


@dataclass(frozen=True)
class Facts:
    """What a report shows; `classes` of classifiers, `text` of language models."""

    summary: Summary
    advice: tuple[Advice, ...]
    curves: tuple[Curves, ...]
    traces: tuple[StageTrace, ...]
    pictures: tuple[tuple[MatrixPictures, ...], ...]
    readers: tuple[int, ...] | None
    sizes: Sizes
    spreads: Spreads | None
    classes: ClassFacts | None
    text: TextFacts | None
    background: Background
    has_samples: bool


def collect(
    path: Path,
    *,
    samples_folder: Path | None = None,
    data_folder: Path | None = None,
    code: Sequence[str] = (),
    without: Path | None = None,
) -> Facts:
    """Measure a finished run; anything that is none raises `InputError`.

    `without` is a file of the folder not to be listed: the report that is being written.
    """
    run = open_run(path, samples_folder=samples_folder, data_folder=data_folder, code=code)
    curves, classes, text, differing = _predictions(run)
    spreads = sample_spreads(run)
    summary = run_summary(run)
    how = run.recipe.prune
    return Facts(
        summary,
        advise(
            run.result.findings,
            curves[0],
            spreads,
            sparsity=None if how is None else how.sparsity,
            differing=differing,
            rollbacks=run.result.rollbacks,
            judged_on=_not_to_choose_on(run),
        ),
        curves,
        stage_traces(run),
        member_pictures(run),
        input_readers(run),
        member_sizes(run),
        spreads,
        classes,
        text,
        background(run, without=without),
        bool(run.sample_files),
    )


def _not_to_choose_on(run: FinishedRun) -> str:
    """What a classifier's figures come from if it is a test set, and what to choose settings on.

    Those of language models come from the validation text, which is for choosing.
    """
    about = run.recipe.data
    if isinstance(run.data, Corpus) or (
        isinstance(about, ImageData | CustomData) and about.held_out
    ):
        return ""
    what = "images" if isinstance(about, ImageData) else "examples"
    return f"the test {what}: choose settings on held-out data, data.held_out"


def _predictions(
    run: FinishedRun,
) -> tuple[tuple[Curves, ...], ClassFacts | None, TextFacts | None, float | None]:
    """What the networks say about data they were not trained on."""
    if isinstance(run.data, Corpus):
        assert isinstance(run.ensemble, LanguageEnsemble)
        curves = text_curves(run, run.data)
        return (curves,), None, text_facts(run.ensemble, run.data.valid, run.recipe.seed), None
    assert isinstance(run.ensemble, Ensemble)
    test = run.data[1]
    probabilities = run.ensemble.member_probabilities(test.inputs)
    return (
        class_curves(run, test, measured_on(run)),
        class_facts(probabilities, test),
        None,
        disagreement(probabilities),
    )
