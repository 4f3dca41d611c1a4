"""Two ensembles on the same data: how far their metrics differ, and how sure that is.

The uncertainty is that of the data: examples are drawn again with replacement, for both ensembles
the same ones (a paired bootstrap), and every metric is computed anew. Neighbouring words of a text
are not independent, so they are drawn in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.settings import Settings
from sparsemble.tasks import Evaluation, Task

_DRAWS = 1000
_AT_ONCE = 100
_LEVEL = 0.95


class Difference(Settings):
    """One metric of two ensembles; `low` and `high` hold their difference in 95 of 100 cases."""

    own: float
    other: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Does the interval leave zero out?"""
        return self.low > 0 or self.high < 0


def compare(own: Ensemble, other: Ensemble, data: Any) -> dict[str, Difference]:
    """Every metric of one ensemble beside that of another, on the same data.

    Args:
        own: The ensemble in question.
        other: What it is compared with.
        data: As `Ensemble.evaluate` takes them.
    """
    if type(own.task) is not type(other.task):
        raise InputError(
            f"{own.task.noun} cannot be compared with {other.task.noun}: they predict other things"
        )
    mine, theirs = _statistics(own, data), _statistics(other, data)
    means = [{key: values.mean(0) for key, values in one.items()} for one in (mine, theirs)]
    found, beside = (own.task.figures(one) for one in means)
    drawn = _differences(own.task, mine, theirs)
    tail = (1 - _LEVEL) / 2
    return {
        metric.key: Difference(
            own=found[metric.key],
            other=beside[metric.key],
            low=float(drawn[metric.key].quantile(tail)),
            high=float(drawn[metric.key].quantile(1 - tail)),
        )
        for metric in own.task.metrics
    }


def evidence_of(ensemble: Ensemble, held: Evaluation) -> tuple[Tensor, Tensor]:
    """The members' evidence for all of the data, `(members, examples, …)`, and the answers."""
    evidence, targets = zip(*ensemble.scored(held), strict=True)
    if len({own.shape[1:] for own in targets}) > 1 and not ensemble.task.is_per_example:
        raise InputError(
            f"{held.name}: batches of different lengths: pad all to the same, with targets that "
            "are ignored"
        )
    return torch.cat(evidence, dim=1), torch.cat(targets)


def log_score(ensemble: Ensemble, held: Evaluation) -> float:
    """The logarithmic score that settings and members are chosen by; with weights, weighted."""
    if held.weights is None:
        return ensemble.evaluate(held)[ensemble.task.log_score]
    return float(log_scores(ensemble, held).mean())


def log_scores(ensemble: Ensemble, data: Any) -> Tensor:
    """The logarithmic score of every example, or block of a text; lower is better.

    With weights each is as many times its score, so that their mean is weighted.
    """
    held = ensemble.task.held(data)
    scores, weights = _statistics(ensemble, held)[ensemble.task.log_score], held.weights
    return scores if weights is None else scores * (weights / weights.mean())


def is_better(own: Tensor, other: Tensor) -> bool:
    """Is one score lower than another, by more than the standard error of their difference?

    Small data cannot tell settings apart that are nearly alike: then the simpler one is to stay.
    Scores that are not finite are worse than any that are.
    """
    if not bool(torch.cat([own, other]).isfinite().all()):
        return bool(own.isfinite().all())
    apart = own - other
    if len(apart) < 2:
        return bool(apart.mean() < 0)
    return bool(apart.mean() < -apart.std() / math.sqrt(len(apart)))


def _statistics(ensemble: Ensemble, data: Any) -> dict[str, Tensor]:
    """What the metrics are means of, `(blocks, …)` each."""
    task = ensemble.task
    held = task.held(data)
    parts: dict[str, list[Tensor]] = {}
    for evidence, targets in ensemble.scored(held):
        for key, values in task.statistics(task.mix(evidence), targets.to(evidence.device)).items():
            parts.setdefault(key, []).append(values.double().cpu())
    whole = {key: held.in_order(torch.cat(values)) for key, values in parts.items()}
    return {key: _blocked(values, task.block) for key, values in whole.items()}


def _blocked(values: Tensor, size: int) -> Tensor:
    """Means of neighbours; what is left over at the end goes without a block."""
    if size == 1 or len(values) < 2 * size:
        return values
    blocks = len(values) // size
    return values[: blocks * size].view(blocks, size, *values.shape[1:]).mean(1)


def _differences(
    task: Task, mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Every metric's difference for each of many draws."""
    generator = torch.Generator().manual_seed(0)
    count = len(next(iter(mine.values())))
    differences: dict[str, list[float]] = {metric.key: [] for metric in task.metrics}
    for _ in range(_DRAWS // _AT_ONCE):
        drawn = torch.randint(count, (_AT_ONCE, count), generator=generator)
        times = torch.zeros(_AT_ONCE, count, dtype=torch.float64)
        times.scatter_add_(1, drawn, torch.ones(1, 1, dtype=torch.float64).expand(*drawn.shape))
        means = [
            {key: _weighted(times, values) / count for key, values in one.items()}
            for one in (mine, theirs)
        ]
        for number in range(_AT_ONCE):
            found, beside = (
                task.figures({key: values[number] for key, values in one.items()}) for one in means
            )
            for key, known in differences.items():
                known.append(found[key] - beside[key])
    return {key: torch.tensor(known, dtype=torch.float64) for key, known in differences.items()}


def _weighted(times: Tensor, values: Tensor) -> Tensor:
    """The sum of the examples' values, each as often as it was drawn, for every draw."""
    total: Tensor = torch.tensordot(times, values, dims=1)
    return total
