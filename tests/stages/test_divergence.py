"""The watch for divergence: one bad step passes, and a loss that leaves for good is noticed."""

from __future__ import annotations

import math

import numpy as np

from sparsemble.stages.divergence import DivergenceSettings, DivergenceWatch

GUESS = math.log(2)


def losses(batch: int, seed: int, steps: int = 1000) -> np.ndarray:
    """Of a classifier that is sure to 90 % and right as often: nothing about it changes."""
    right = np.random.default_rng(seed).random((steps, batch)) < 0.9
    return np.where(right, -math.log(0.9), -math.log(0.1)).mean(1)


def test_a_loss_that_rises_for_good_is_noticed_soon():
    watch = DivergenceWatch(DivergenceSettings(), GUESS)
    for loss in losses(32, 0, 400):
        assert watch.reason(float(loss)) is None
    reasons = [watch.reason(5.0) for _ in range(40)]
    assert any(reason is not None and "rose from" in reason for reason in reasons)


def test_a_network_that_is_lost_after_a_few_steps_is_noticed():
    watch = DivergenceWatch(DivergenceSettings(), GUESS)
    reasons = [watch.reason(loss) for loss in [0.05] * 5 + [GUESS] * 100]
    assert not any(reasons[:6])  # one bad step passes
    assert any(reasons)


def test_a_loss_that_is_no_number_is_noticed_at_once():
    assert DivergenceWatch(DivergenceSettings(), GUESS).reason(math.nan) == "the loss is nan"
