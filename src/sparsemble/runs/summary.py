"""What a run gave, as one table: the ensemble beside its baseline and, if known, the truth."""

from __future__ import annotations

from collections.abc import Sequence

from sparsemble.errors import InputError
from sparsemble.runs.results import Result
from sparsemble.runs.sheets import Sheet

_CLASSES = (
    ("Error %", "error", ".2%"),
    ("a member's", "member_error", ".2%"),
    ("NLL", "nll", ".4f"),
    ("Calibration error", "ece", ".4f"),
)
_TEXT = (
    ("Dev perplexity", "valid_perplexity", ".2f"),
    ("best member's", "valid_single_perplexity", ".2f"),
    ("Test perplexity", "test_perplexity", ".2f"),
    ("that member's", "test_single_perplexity", ".2f"),
)
_TRUE = {
    "valid_perplexity": "valid_true_perplexity",
    "test_perplexity": "test_true_perplexity",
}
"""Where the source's own figures stand, if they are known."""


def summary(results: Sequence[Result], names: Sequence[str] = ()) -> Sheet:
    """One column a result, headed by its recipe or by `names`."""
    if len({_metrics(result) for result in results}) > 1:
        raise InputError("language models and classifiers cannot be compared in one table")
    metrics = results[-1].metrics
    heads = names or [result.recipe.name for result in results]
    columns = [[name, *_column(result)] for name, result in zip(heads, results, strict=True)]
    if "entropy_perplexity" in metrics:
        shown = [_figure(metrics, _TRUE.get(key, ""), style) for _, key, style in _TEXT]
        title = f"source (entropy {metrics['entropy_perplexity']:.2f})"
        columns.append([title, "", *shown, "", "", "", ""])
    lines = ["", "Members", *(name for name, _, _ in _metrics(results[0]))]
    lines += ["Parameters", "FLOPs", "Units of the first member", "Training, seconds"]
    header, *rows = zip(lines, *columns, strict=True)
    return Sheet("What was learned", header, tuple(rows))


def _column(result: Result) -> list[str]:
    return [
        str(len(result.structures)),
        *(_figure(result.metrics, key, style) for _, key, style in _metrics(result)),
        f"{result.parameters_ratio:.2f}×",
        f"{result.flops_ratio:.2f}×",
        "-".join(map(str, result.structures[0])),
        f"{sum(result.seconds.values()):.0f}",
    ]


def _metrics(result: Result) -> tuple[tuple[str, str, str], ...]:
    return _TEXT if "valid_perplexity" in result.metrics else _CLASSES


def _figure(metrics: dict[str, float], key: str, style: str) -> str:
    return format(metrics[key], style).rstrip("%") if key in metrics else ""
