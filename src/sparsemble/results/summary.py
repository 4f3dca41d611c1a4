"""What runs gave, as one table: the ensemble beside its baseline and, if known, the truth."""

from __future__ import annotations

from collections.abc import Sequence

from sparsemble.errors import InputError
from sparsemble.pages.numbers import count
from sparsemble.results.result import Result
from sparsemble.results.tables import Table
from sparsemble.tasks import Metric, Score

_COSTS = (
    "Parameters",
    "FLOPs",
    "Units of the first member",
    "Training, epochs",
    "Training, FLOPs",
    "of one dense network's",
    "of as many dense networks'",
    "Training, seconds",
)


def summary(
    results: Sequence[Result], names: Sequence[str] = (), dense: Result | None = None
) -> Table:
    """One column per result, headed by its recipe or by `names`.

    Costs are multiples of a dense network of its own kind, or of that of `dense`.
    """
    parts = list(results[-1].scores)
    metrics = results[-1].shown
    if any(result.shown != metrics for result in results):
        raise InputError("runs of different tasks cannot be compared in one table")
    heads = names or [result.recipe.name for result in results]
    columns = [
        [name, *_column(result, parts, metrics, dense or result)]
        for name, result in zip(heads, results, strict=True)
    ]
    references = {part: results[-1].scores[part].reference for part in parts}
    if any(references.values()):
        figures = [
            metric.text(references[part].get(metric.key)) if place == 0 else ""
            for part in parts
            for metric in metrics
            for place in range(1 + (metric is metrics[0]))
        ]
        rest = ["" for _ in _COSTS]
        columns.append(["the source itself", "", *figures, *rest])
    header, *rows = zip(_lines(parts, metrics), *columns, strict=True)
    return Table("What was learned", header, tuple(rows))


def _lines(parts: Sequence[str], metrics: Sequence[Metric]) -> list[str]:
    lines = ["", "Members"]
    for part in parts:
        where = f" ({part})" if len(parts) > 1 else ""
        for metric in metrics:
            lines.append(f"{metric.title}{where}")
            if metric is metrics[0]:
                lines.append("one member's, on average")
    return [*lines, *_COSTS]


def _column(
    result: Result, parts: Sequence[str], metrics: Sequence[Metric], dense: Result
) -> list[str]:
    figures = []
    for part in parts:
        score = result.scores.get(part)
        for metric in metrics:
            figures.append(metric.text(None if score is None else score[metric.key]))
            if metric is metrics[0]:
                figures.append(metric.text(_of_a_member(score, metric.key)))
    return [
        str(len(result.structures)),
        *figures,
        _multiple(result.parameters, dense.parameters, dense.parameters_ratio),
        _multiple(result.flops, dense.flops, dense.flops_ratio),
        "-".join(map(str, result.structures[0])),
        *_training(result, dense),
        f"{sum(result.seconds.values()):.0f}",
    ]


def _multiple(own: int, dense: int, ratio: float) -> str:
    """A cost beside that of the dense network, of which another one, `dense`, has such a share."""
    if own == dense:
        return f"{ratio:.2f}×"
    return f"{own * ratio / dense:.2f}×" if dense else "–"


def _training(result: Result, dense: Result) -> list[str]:
    """Epochs and FLOPs of all stages, the latter as shares of training dense networks."""
    if result.training is None:
        return ["–"] * 4
    total = result.training.total
    unit = dense.training or result.training
    shares = [unit.share(total, networks) for networks in (1, len(result.structures))]
    return [
        f"{total.epochs:.4g}",
        "–" if total.flops is None else count(total.flops),
        *("–" if share is None else f"{share:.2f}×" for share in shares),
    ]


def _of_a_member(score: Score | None, key: str) -> float | None:
    return None if score is None else score.of_a_member(key)
