"""One score is better than another if that is sure, and never if it is no number."""

from __future__ import annotations

import pytest
import torch

from sparsemble.ensemble.comparison import is_better

GOOD, BAD = torch.tensor([0.1, 0.2, 0.1]), torch.tensor([1.0, 1.2, 1.1])


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_lose_against_all_that_are(broken):
    lost = torch.tensor([0.0, broken, 0.0])
    assert is_better(BAD, lost)
    assert not is_better(lost, BAD)
    assert not is_better(lost, lost)


def test_what_is_alike_is_not_better():
    assert is_better(GOOD, BAD)
    assert not is_better(BAD, GOOD)
    assert not is_better(GOOD + torch.tensor([-0.1, 0.1, 0.0]), GOOD)
