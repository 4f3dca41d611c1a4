"""How far predictions of numbers can be trusted: against the truth, intervals, residuals."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from sparsemble.data import Dataset
from sparsemble.pages.blocks import Figure, Grid, Paragraph, Section
from sparsemble.pages.charts import Bars, Line, bar_chart, line_chart, scatter_chart
from sparsemble.pages.numbers import figure
from sparsemble.tasks.mixtures import Mixture
from sparsemble.tasks.regression import Regression
from sparsemble.tasks.task import Evaluation, Predictor

_BINS = 24
_LEVELS = 20


def sections(task: Regression, ensemble: Predictor, evaluation: Evaluation) -> Iterator[Section]:
    """All that a report shows of regressors; of a loader's examples nothing is at hand."""
    if not isinstance(evaluation.data, Dataset):
        return
    names = evaluation.data.feature_names if task.feature_names is not None else None
    evidence = ensemble.evidence(evaluation.data.inputs, names).cpu()
    truth = task.known_targets(evaluation.data, evaluation.name).double()
    law = task.mixture(task.mix(evidence))
    yield _predictions(task, law, truth, evaluation.name)
    yield _intervals(task, law, truth)


def _predictions(task: Regression, law: Mixture, truth: Tensor, where: str) -> Section:
    figures = []
    for number, name in enumerate(task.names):
        means, own = law.mean[:, number], truth[:, number]
        deviations = law.variance[:, number].sqrt()
        figures.append(_against_truth(name, means, deviations, own))
        figures.append(_residuals(name, (own - means) / deviations))
    share = float((law.epistemic / law.variance).mean())
    lead = Paragraph(
        f"Every dot is one of {where}. On average {100 * share:.0f} % of the predicted variance is "
        "what the members disagree about; more data would make it smaller. The rest is noise that "
        "they agree upon. Residuals are what is left of the targets, in units of the predicted "
        "standard deviation."
    )
    return Section("predictions", "Predicted and true", [lead, Grid(figures)])


def _against_truth(name: str, means: Tensor, deviations: Tensor, truth: Tensor) -> Figure:
    error = float((truth - means).square().mean().sqrt())
    tips = [
        f"predicted {figure(mean)} ± {figure(deviation)}, truly {figure(true)}"
        for mean, deviation, true in zip(
            means.tolist(), deviations.tolist(), truth.tolist(), strict=True
        )
    ]
    chart = scatter_chart(
        f"Predicted and true {name}",
        f"{len(truth):,} examples; the root mean square error is {figure(error)}.",
        list(zip(means.tolist(), truth.tolist(), strict=True)),
        x_label=f"Predicted {name}",
        y_label=f"True {name}",
        tips=tips,
        diagonal=True,
    )
    return Figure(f"{name}: predicted and true", chart, f"Root mean square error {figure(error)}.")


def _residuals(name: str, scaled: Tensor) -> Figure:
    reach = max(3.0, float(scaled.abs().max()))
    counts = torch.histc(scaled, _BINS, -reach, reach)
    edges = torch.linspace(-reach, reach, _BINS + 1).tolist()
    law = torch.special.ndtr(torch.tensor(edges, dtype=torch.float64)).diff() * len(scaled)
    outside = f"{100 * float((scaled.abs() > 2).double().mean()):.1f} %"
    chart = bar_chart(
        f"Residuals of {name}",
        f"{outside} lie more than two standard deviations away.",
        edges,
        [
            Bars("residuals", tuple(counts.tolist()), 0),
            Bars("a normal law", tuple(law.tolist()), 1),
        ],
        x_label="(true − predicted) ÷ predicted standard deviation",
        y_label="Examples",
    )
    caption = f"Blue: {outside} lie beyond two deviations. Orange: a normal law, with 4.6 %."
    return Figure(f"{name}: residuals", chart, caption)


def _intervals(task: Regression, law: Mixture, truth: Tensor) -> Section:
    levels = [k / _LEVELS for k in range(1, _LEVELS)]
    place = (law.cdf(truth) - 0.5).abs()
    lengths = torch.stack([high - low for low, high in map(law.interval, levels)]).mean(1)
    figures = []
    for number, name in enumerate(task.names):
        held = [100 * float((place[:, number] <= level / 2).double().mean()) for level in levels]
        widths = lengths[:, number].tolist()
        asked = [100 * level for level in levels]
        coverage = line_chart(
            f"Intervals of {name}",
            f"Of intervals of 90 % {held[levels.index(0.9)]:.0f} % hold their target.",
            asked,
            [
                Line("held", tuple(held), 0, label="held"),
                Line("asked for", tuple(asked), 3, label="asked for", faint=True),
            ],
            x_label="% asked for",
            y_label="% of the targets within",
        )
        width = line_chart(
            f"Width of intervals of {name}",
            f"On average {figure(widths[levels.index(0.9)])} at 90 %.",
            asked,
            [Line("width", tuple(widths), 0)],
            x_label="% asked for",
            y_label=f"Width, in {name}",
        )
        figures += [
            Figure(f"{name}: what intervals hold", coverage, "Below the line they are too narrow."),
            Figure(
                f"{name}: how wide they are",
                width,
                f"On average {figure(widths[levels.index(0.9)])} at 90 %.",
            ),
        ]
    lead = Paragraph(
        "A prediction is a law, whose central intervals should hold as many targets as they claim."
    )
    return Section("intervals", "Calibration of intervals", [lead, Grid(figures)])
