"""Patience: a chain ends once its samples stop getting better, and its best is its last."""

from __future__ import annotations

import pytest

from sparsemble.errors import InputError
from sparsemble.stages import Sample
from sparsemble.stages.patience import Patience


def chain(count: int) -> list[Sample]:
    return [Sample(0, step, {}) for step in range(1, count + 1)]


def by(figures: list[float]):
    return lambda sample: figures[sample.step - 1]


def test_so_many_samples_in_a_row_may_be_no_better_than_the_best_before():
    patience = Patience(2, by([3.0, 1.0, 2.0, 1.0, 5.0]))
    samples = chain(5)
    ended = [patience.is_exhausted(samples[:count]) for count in range(6)]
    assert ended == [False, False, False, False, True, True]


def test_what_came_after_the_best_of_an_ended_chain_is_left_out_and_only_that():
    patience = Patience(2, by([3.0, 1.0, 2.0, 2.0]))
    assert [sample.step for sample in patience.without_the_worse(chain(4))] == [1, 2]
    assert [sample.step for sample in patience.without_the_worse(chain(3))] == [1, 2, 3]


def test_a_sample_taken_again_after_a_rollback_is_judged_again():
    judged: list[int] = []

    def judge(sample: Sample) -> float:
        judged.append(id(sample))
        return 1.0

    patience = Patience(3, judge)
    again = Sample(0, 1, {})
    patience.is_exhausted(chain(1))
    patience.is_exhausted([again])
    patience.is_exhausted([again])
    assert len(judged) == 2


def test_a_sample_that_predicts_no_numbers_is_never_the_best():
    patience = Patience(2, by([float("nan"), 2.0, 1.0]))
    assert [sample.step for sample in patience.without_the_worse(chain(3))] == [1, 2, 3]
    assert not patience.is_exhausted(chain(3))


def test_without_patience_nothing_is_judged():
    patience = Patience(None, None)
    assert not patience.is_exhausted(chain(9))
    assert len(patience.without_the_worse(chain(9))) == 9


def test_patience_needs_something_to_judge_by():
    with pytest.raises(InputError, match="patience = 4 needs validation data"):
        Patience(4, None)
