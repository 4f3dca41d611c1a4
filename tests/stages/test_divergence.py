"""The watch for divergence: chance is no divergence, and a loss that leaves for good is one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparsemble.stages.divergence import DivergenceSettings, DivergenceWatch

GUESS = math.log(2)


def losses(batch: int, seed: int, steps: int = 1000) -> np.ndarray:
    """Of a classifier that is sure to 90 % and right as often: nothing about it changes."""
    right = np.random.default_rng(seed).random((steps, batch)) < 0.9
    return np.where(right, -math.log(0.9), -math.log(0.1)).mean(1)


@pytest.mark.parametrize(("batch", "most"), [(1, 2), (4, 1), (32, 0)])
def test_a_good_network_that_stays_as_it_is_has_not_diverged(batch, most):
    """Whatever its first batch happened to be."""
    diverged = 0
    for seed in range(40):
        watch = DivergenceWatch(DivergenceSettings(), GUESS)
        diverged += any(watch.reason(float(loss)) for loss in losses(batch, seed))
    assert diverged <= most


def test_a_loss_that_rises_for_good_is_noticed_soon():
    watch = DivergenceWatch(DivergenceSettings(), GUESS)
    for loss in losses(32, 0, 400):
        assert watch.reason(float(loss)) is None
    reasons = [watch.reason(5.0) for _ in range(20)]
    assert any(reason is not None and "rose from" in reason for reason in reasons)


def test_a_loss_that_is_no_number_is_noticed_at_once():
    assert DivergenceWatch(DivergenceSettings(), GUESS).reason(math.nan) == "the loss is nan"
