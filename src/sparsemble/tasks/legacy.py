"""The tasks that files of version 0.1 imply: their manifests, recipes and results load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparsemble.tasks.classification import Classification
from sparsemble.tasks.language import LanguageModelling
from sparsemble.tasks.task import Metric

_METRICS = ("error", "nll", "ece", "brier")


def task_of_manifest(fields: dict[str, Any]) -> dict[str, Any]:
    """Take the task out of a manifest: classifiers have class names, language models words."""
    names = {key: fields.pop(key, None) for key in ("class_names", "feature_names", "vocabulary")}
    if names["vocabulary"] is not None:
        return {"kind": "language-modelling", "words": names["vocabulary"]}
    sizes = fields.get("sizes")
    width = sizes.get("inputs") if isinstance(sizes, dict) else None
    return {
        "kind": "classification",
        "class_names": names["class_names"],
        "feature_names": names["feature_names"],
        "input_shape": None if width is None else [width],
    }


def task_of_recipe(network: Mapping[str, Any] | None, window: int) -> dict[str, Any] | None:
    """The task of a recipe: every recipe had a window, only that of an LSTM meant something."""
    if network is not None and network.get("kind") == "lstm":
        return {"kind": "language-modelling", "window": window}
    return None


def scores_of_result(
    metrics: Mapping[str, float], curves: Mapping[str, list[float]], *, validation: bool
) -> tuple[tuple[Metric, ...], dict[str, Any]]:
    """The table of metrics and the scores by part, from one flat table of figures."""
    if "error" in metrics:
        score = {
            "count": 0,
            "curve": {key: [metrics[key]] for key in _METRICS if key in metrics},
            # Of single members only the mean was kept.
            "members": {
                key: [metrics[f"member_{key}"]] for key in _METRICS if f"member_{key}" in metrics
            },
            "diversity": metrics.get("disagreement", 0.0),
        }
        return Classification.metrics, {"validation" if validation else "test": score}
    scores = {}
    for old, part in (("valid", "validation"), ("test", "test")):
        if f"{old}_perplexity" in metrics:
            true = metrics.get(f"{old}_true_perplexity")
            scores[part] = {
                "count": 0,
                "curve": {"perplexity": curves[f"{old}_ensemble"]},
                "members": {"perplexity": curves[f"{old}_members"]},
                "reference": {} if true is None else {"perplexity": true},
            }
    return LanguageModelling.metrics, scores
