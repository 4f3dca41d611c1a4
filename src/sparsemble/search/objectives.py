"""What trials are compared by, all of it to be small, and the front of those that none beats."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sparsemble.results import Result
from sparsemble.search.space import Objective
from sparsemble.tasks import Metric

COSTS = {"flops": "FLOPs", "parameters": "Parameters", "seconds": "Seconds of training"}
"""What each cost is called on a chart."""


def deciding_metric(result: Result) -> Metric:
    """The task's log score where there is one, it being smoother than an error; else the first."""
    known = {metric.key: metric for metric in result.metrics}
    return known.get(result.log_score, result.metrics[0])


def loss_of(result: Result) -> float:
    """The metric that decides, the other way round where more is better."""
    metric = deciding_metric(result)
    figure = result.score[metric.key]
    return -figure if metric.better == "higher" else figure


def value_of(objective: Objective, result: Result) -> float:
    """What an objective is for a result; what is no number is as bad as can be.

    Costs are counted, not shares of a dense network: that may be another one for every trial.
    """
    found = {
        "quality": loss_of(result),
        "flops": result.flops,
        "parameters": result.parameters,
        "seconds": sum(result.seconds.values()),
    }[objective]
    return math.inf if math.isnan(found) else found


def on_front(points: Sequence[Sequence[float]]) -> list[bool]:
    """Which points no other beats: none is at least as small in all, and smaller in something.

    >>> on_front([(1, 5), (2, 2), (2, 6), (3, 1), (3, 1)])
    [True, True, False, True, True]
    """
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
