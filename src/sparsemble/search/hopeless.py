"""When a trial is hopeless: its chains do worse than those of most trials did at the same stage.

Optuna's median rule, for runs of different lengths: the running ensemble is compared with the
median of finished trials after the same share of their samples, by what settings are chosen by: the
task's log score.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sparsemble.recipes import Recipe
from sparsemble.results import Result
from sparsemble.stages import EpochRecord, SampleRecord

_FEWEST = 5
"""Trials that must be finished to compare with."""
_BEGINNING = 1 / 3
"""Share of a trial's samples that is let pass."""
_MANY_STEPS = 10**6
"""Of an epoch: enough for any collection, whose samples do not become fewer by it."""


def is_hopeless(
    record: EpochRecord | SampleRecord, recipe: Recipe, results: Sequence[Result]
) -> bool:
    """Is a trial's running ensemble worse than the median of others were?

    Args:
        record: What happened last.
        recipe: That of the trial.
        results: Of finished trials.
    """
    if not isinstance(record, SampleRecord) or record.stage != "chain":
        return False
    share = share_of(record, recipe)
    others = [other for result in results if (other := _record_at(share, result)) is not None]
    if share <= _BEGINNING or len(others) < _FEWEST:
        return False
    scores = [other.log_score for other in others if other.log_score is not None]
    if record.log_score is not None and len(scores) == len(others):
        return record.log_score > statistics.median(scores)
    middle = statistics.median(other.together for other in others)
    metric = next(own for own in results[0].metrics if own.key == record.metric)
    return record.together < middle if metric.better == "higher" else record.together > middle


def share_of(record: SampleRecord, recipe: Recipe) -> float:
    """How many of its samples a trial has."""
    every = recipe.chain.chains * len(recipe.chain.steps_to_collect(_MANY_STEPS))
    return min(record.members / every, 1.0)


def _record_at(share: float, result: Result) -> SampleRecord | None:
    """How the ensemble of a finished trial did when it had such a share of its samples."""
    known = [record for record in result.learning if record.stage == "chain"]
    reached = int(share * len(known) + 1e-9)
    return known[reached - 1] if reached else None
