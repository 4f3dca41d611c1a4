"""When a trial is hopeless: worse than the median of others after the same share of samples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scenarios import CLASSES
from sparsemble.recipes import load_recipe
from sparsemble.results.result import Result, read_result
from sparsemble.search.hopeless import is_hopeless
from sparsemble.stages import SampleRecord

RECIPE = load_recipe("digits", CLASSES | {"chain.chains": 2})
"""Six samples."""


def record(members: int, together: float, stage: str = "chain") -> SampleRecord:
    return SampleRecord(stage, 0, 0, members, "error", "validation", together, together)


@pytest.fixture
def results(class_run) -> list[Result]:
    """Five trials with three samples each: errors of 0.5, 0.3 and, in the end, 0.1 to 0.5."""
    known = read_result(class_run / "result.json")
    later = record(1, 9.0, "retrain")
    return [
        known.model_copy(
            update={"learning": [record(1, 0.5), record(2, 0.3), record(3, last), later]}
        )
        for last in (0.1, 0.2, 0.3, 0.4, 0.5)
    ]


@pytest.mark.parametrize(
    ("members", "together", "hopeless"),
    [
        (1, 0.9, False),  # before the others had one
        (2, 0.9, False),  # a third of all is let pass
        (3, 0.6, True),  # the others still had but one
        (3, 0.5, False),
        (4, 0.31, True),
        (4, 0.3, False),
        (6, 0.31, True),
        (6, 0.29, False),
    ],
)
def test_the_same_share_of_samples_is_compared(members, together, hopeless, results):
    assert is_hopeless(record(members, together), RECIPE, results) == hopeless


def test_nothing_is_hopeless_beside_few_trials_or_in_later_stages(results):
    assert not is_hopeless(record(6, 0.9), RECIPE, results[:4])
    assert not is_hopeless(record(6, 0.9, "retrain"), RECIPE, results)


def test_where_more_is_better_less_is_hopeless(results):
    metrics = [replace(metric, better="higher") for metric in results[0].metrics]
    turned = [result.model_copy(update={"metrics": metrics}) for result in results]
    assert is_hopeless(record(6, 0.29), RECIPE, turned)
    assert not is_hopeless(record(6, 0.31), RECIPE, turned)


def test_the_log_score_decides_where_all_have_one(results):
    def scored(result: Result, score: float) -> Result:
        learning = [replace(own, log_score=score) for own in result.learning]
        return result.model_copy(update={"learning": learning})

    known = [scored(result, 1.0) for result in results]
    best = replace(record(6, 0.9), log_score=0.5)  # of the worst error
    assert not is_hopeless(best, RECIPE, known)
    assert is_hopeless(replace(best, together=0.0, log_score=1.5), RECIPE, known)
    assert is_hopeless(best, RECIPE, [*known[:-1], results[-1]])  # one is older
