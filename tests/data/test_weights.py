"""Weights of examples: how often each is drawn, and what is learned from that."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsemble.data import ArrayBatches, as_dataset
from sparsemble.data.batches import copies
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.ensemble.comparison import log_scores
from sparsemble.ensemble.selection import selected
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.nets import feedforward
from sparsemble.tasks import Classification

WEIGHTS = st.lists(
    st.floats(0, 1e3).filter(lambda w: w == 0 or w > 1e-3), min_size=1, max_size=30
).filter(any)


@given(WEIGHTS, st.integers(1, 100), st.integers(0, 2**32))
def test_every_example_is_taken_as_often_as_is_due_up_to_one(weights, total, seed):
    weighed = torch.tensor(weights, dtype=torch.float64)
    found = copies(weighed, total, torch.Generator().manual_seed(seed))
    assert int(found.sum()) == total
    due = weighed / weighed.sum() * total
    assert bool(((found - due).abs() < 1 + 1e-6).all())
    assert not bool(found[weighed == 0].any())


def test_members_are_selected_by_weighted_examples():
    """Of two members one is right on many examples that hardly count."""
    members = []
    for sign in (1.0, -1.0):
        network = feedforward(1, [], 2)
        with torch.no_grad():
            network[0].weight.copy_(torch.tensor([[0.0], [3.0 * sign]]))
            network[0].bias.zero_()
        members.append(Member.dense(network, layout_of(network)))
    ensemble = Ensemble(members, Classification(num_classes=2, input_shape=(1,)))
    inputs = torch.tensor([[1.0]] * 6 + [[-1.0]] * 4)
    weights = torch.tensor([0.001] * 6 + [1.0] * 4)
    data = as_dataset(inputs, [1] * 6 + [1] * 4).weighed(weights)
    assert selected(ensemble, data, Budget(flops=2.0)) == [1]
    assert selected(ensemble, as_dataset(data.inputs, data.targets), Budget(flops=1.0)) == [0]


def test_on_average_every_example_is_drawn_by_its_weight():
    weights = torch.tensor([0.1, 3.0, 0.0, 0.4, 1.5])
    data = as_dataset(torch.arange(5.0)[:, None], [0, 1, 0, 1, 1]).weighed(weights)
    batches = ArrayBatches(data, 2, seed=1)
    assert (batches.num_data, batches.steps) == (4, 2)
    seen = torch.zeros(5)
    for epoch in range(2000):
        rows = torch.cat([inputs.flatten() for inputs, _ in batches.epoch(epoch)])
        assert len(rows) == 4
        seen += torch.bincount(rows.long(), minlength=5)
    assert seen / 2000 == pytest.approx((weights / weights.sum() * 4).tolist(), abs=0.04)


def test_settings_are_chosen_by_scores_that_count_by_their_weights():
    data = as_dataset(torch.tensor([[0.0], [1.0], [2.0]]), [0, 1, 1])
    network = feedforward(1, [3], 2)
    ensemble = Ensemble([Member.dense(network, layout_of(network))], Classification(num_classes=2))
    held = ensemble.task.evaluation(data.weighed([2.0, 1.0, 0.0]))
    plain = log_scores(ensemble, data)
    weighed = log_scores(ensemble, held)
    assert float(weighed.mean()) == pytest.approx(float((2 * plain[0] + plain[1]) / 3))


def test_the_fingerprint_of_data_knows_their_weights():
    data = as_dataset(torch.arange(3.0)[:, None], [0, 1, 1])
    task = Classification()
    plain, weighed = task.training(data), task.training(data.weighed([1, 2, 1]))
    assert plain.fingerprint() != weighed.fingerprint()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "weights must be 3 numbers"),
        ([1.0, -1.0, 2.0], "none below 0"),
        ([0.0, 0.0, 0.0], "not all 0"),
        ([1.0, np.nan, 0.0], "NaN or infinite"),
    ],
)
def test_weights_that_say_nothing_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        as_dataset(torch.arange(3.0)[:, None], [0, 1, 1]).weighed(weights)
