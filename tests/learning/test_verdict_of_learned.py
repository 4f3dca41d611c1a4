"""The verdict on what was learned by a call from Python."""

from __future__ import annotations

import pytest

import sparsemble
from small_runs import network, recipe
from sparsemble.errors import InputError


def fresh():
    """A network whose weights the seed of the run decides."""
    return sparsemble.feedforward(8, [24], 3)


def test_a_dense_network_is_trained_beside_and_judged(arrays, tmp_path):
    learned = sparsemble.learn(fresh, arrays, recipe(), baseline=2, folder=tmp_path)
    assert learned.dense is not None
    assert len(learned.dense.ensemble) == 2
    verdict = learned.verdict(arrays)
    first = learned.dense.ensemble[:1].evaluate(arrays)["nll"]
    assert verdict.differences["nll"].other == pytest.approx(first)
    assert verdict.members == len(learned.ensemble)
    own, beside = (sum(each.seconds.values()) for each in (learned, learned.dense))
    assert verdict.training == pytest.approx(own / (beside / 2))
    again = sparsemble.learn(fresh, arrays, recipe(), baseline=2, folder=tmp_path)
    assert again.dense.ensemble.evaluate(arrays) == learned.dense.ensemble.evaluate(arrays)


def test_without_one_there_is_no_verdict(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    assert learned.dense is None
    with pytest.raises(InputError, match="no dense network was trained beside"):
        learned.verdict(arrays)
