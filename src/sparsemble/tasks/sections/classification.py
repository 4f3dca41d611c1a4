"""How far the classifiers' predictions can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sparsemble.data import Arguments, Dataset
from sparsemble.pages.blocks import Block, Figure, Fragment, Grid, Listing, Paragraph, Section
from sparsemble.pages.charts import Bars, bar_chart, reliability_chart
from sparsemble.pages.render import render
from sparsemble.tasks.classification import BINS, Classification
from sparsemble.tasks.sections.class_facts import ClassFacts, class_facts
from sparsemble.tasks.task import Evaluation, Predictor

_CLASSES = 30
"""More classes than this are shown by their commonest confusions only."""
_PAIRS = 12


def sections(
    task: Classification, ensemble: Predictor, evaluation: Evaluation
) -> Iterator[Section]:
    """All that a report shows of classifiers; of a loader's examples nothing is at hand."""
    if isinstance(evaluation.data, Dataset):
        names = evaluation.data.feature_names if task.feature_names is not None else None
        probabilities = ensemble.evidence(evaluation.data.inputs, names).cpu()
        targets = task.known_targets(evaluation.data, evaluation.name)
        data = replace(evaluation.data, targets=targets, class_names=task.names)
        if not task.is_per_example:  # every position that counts, of whichever example
            counted = targets != task.ignore
            data = replace(data, inputs=Arguments((targets[counted],)), targets=targets[counted])
            probabilities = probabilities[:, counted]
        classes = class_facts(probabilities, data, task.columns)
        yield from (calibration(classes), confusions(classes))
        if task.is_per_example:
            yield doubts(classes)


def calibration(classes: ClassFacts) -> Section:
    """Reliability and confidence."""
    series = (("ensemble", classes.ensemble_bins), ("a member", classes.member_bins))
    errors = (
        f"Expected calibration error {classes.ensemble_ece:.4f}, of a member "
        f"{classes.member_ece:.4f} on average."
    )
    reliable = reliability_chart(
        "Reliability",
        f"Accuracy by confidence in {BINS} bins. {errors}",
        [(name, [(b.confidence, b.accuracy, b.share) for b in bins]) for name, bins in series],
    )
    confident = bar_chart(
        "Confidence",
        f"Shares of the predictions in {BINS} bins of confidence.",
        [k / BINS for k in range(BINS + 1)],
        [
            Bars(name, tuple(100 * one.share for one in bins), tone)
            for tone, (name, bins) in enumerate(series)
        ],
        x_label="Confidence",
        y_label="% of the predictions, root scale",
        root=True,
    )
    blocks = [
        Paragraph(
            "Confidence is the probability given to the class that is predicted. Where it equals "
            "how often that class is right, the dots lie on the diagonal; below it the predictions "
            "are too sure of themselves, above it too modest."
        ),
        Grid(
            [
                Figure("Reliability", reliable, f"{errors} A larger dot holds more predictions."),
                Figure("Confidence", confident, "Blue: the ensemble. Orange: a single member."),
            ]
        ),
    ]
    return Section("calibration", "Calibration", blocks)


def confusions(classes: ClassFacts) -> Section:
    """Which classes are taken for which."""
    names = classes.class_names
    wrong = sorted(
        (
            (count, names[true], names[predicted])
            for true, row in enumerate(classes.confusion)
            for predicted, count in enumerate(row)
            if true != predicted and count
        ),
        key=lambda pair: -pair[0],
    )
    total = sum(count for count, _, _ in wrong)
    lead = f"{total:,} of {classes.examples:,} examples are classified wrongly."
    if wrong:
        count, true, predicted = wrong[0]
        lead += f" Most often {true} is taken for {predicted}: {count:,} times."
    blocks: list[Block] = [Paragraph(lead)]
    if len(names) <= _CLASSES:
        shades = [_shades(row, true) for true, row in enumerate(classes.confusion)]
        grid = render(
            "tasks/sections/confusions.html",
            names=names,
            counts=classes.confusion,
            shades=shades,
        )
        blocks.append(Fragment(grid))
    elif wrong:
        blocks.append(Listing([f"{t} taken for {p}: {n:,}" for n, t, p in wrong[:_PAIRS]]))
    return Section("confusions", "Confusions", blocks)


def _shades(row: tuple[int, ...], true: int) -> list[float]:
    """By the share of a class that is right; mistakes beside the commonest of that class."""
    total = max(sum(row), 1)
    worst = max((n for k, n in enumerate(row) if k != true), default=0)
    wrong = min(1, 10 * worst / total) / max(worst, 1)
    return [n / total if k == true else n * wrong for k, n in enumerate(row)]


def doubts(classes: ClassFacts) -> Section:
    """The examples the ensemble is least sure of."""
    shown = render(
        "tasks/sections/doubts.html",
        by_information=classes.by_information,
        by_entropy=classes.by_entropy,
    )
    return Section("doubts", "The most uncertain examples", [Fragment(shown)])
