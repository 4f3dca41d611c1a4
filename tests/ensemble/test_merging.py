"""Merging: members of several ensembles predict together what each predicts alone, on average."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsemble.data import Scaling
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.nets import feedforward
from sparsemble.stages import prune
from sparsemble.tasks import Classification, Regression
from sparsemble.tracing import describe

NAMES = ("cat", "dog", "cow")
ROWS = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
TRUTH = torch.arange(40) % 3


def member(seed: int, sparsity: float = 0.6, hidden: int = 8, activation: str = "relu") -> Member:
    torch.manual_seed(seed)
    network = feedforward(5, [hidden], 3, activation=activation).eval()
    layout = layout_of(network)
    return compact(
        network, layout, prune(dict(network.named_parameters()), layout, sparsity=sparsity)
    )


def ensemble(*seeds: int, task: Classification | None = None, **how) -> Ensemble:
    task = task or Classification(class_names=NAMES, input_shape=(5,))
    return Ensemble([member(seed, **how) for seed in seeds], task)


def test_a_merged_prediction_is_the_mean_over_all_members():
    one, other = ensemble(0, 1), ensemble(2)
    both = Ensemble.merge(one, other)
    by_hand = (2 * one.predict_proba(ROWS) + other.predict_proba(ROWS)) / 3
    assert both.predict_proba(ROWS) == pytest.approx(by_hand, abs=1e-6)
    assert list(both) == [*one, *other]


def test_the_order_of_ensembles_changes_the_order_of_members_alone():
    one, other = ensemble(0, 1), ensemble(2)
    assert list(Ensemble.merge(other, one)) == [*other, *one]
    found = [Ensemble.merge(*both).predict_proba(ROWS) for both in ((one, other), (other, one))]
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_a_member_that_is_there_twice_counts_twice():
    one, other = ensemble(0), ensemble(1)
    thrice = Ensemble.merge(one, one, other)
    by_hand = (2 * one.predict_proba(ROWS) + other.predict_proba(ROWS)) / 3
    assert thrice.predict_proba(ROWS) == pytest.approx(by_hand, abs=1e-6)
    assert thrice.cost.flops == 2 * one.cost.flops + other.cost.flops


def test_a_merged_ensemble_costs_the_sum_and_is_saved_as_any_other(tmp_path):
    one, other = ensemble(0, 1), ensemble(2, sparsity=0.2)
    both = Ensemble.merge(one, other)
    assert both.cost.parameters == one.cost.parameters + other.cost.parameters
    assert both.cost.flops_ratio == pytest.approx(one.cost.flops_ratio + other.cost.flops_ratio)
    both.save(tmp_path)
    again = Ensemble.load(tmp_path)
    assert again.task == one.task
    assert (again.predict_proba(ROWS) == both.predict_proba(ROWS)).all()


def test_traced_networks_merge_if_they_compute_the_same(tmp_path):
    class Network(nn.Module):
        def __init__(self, function) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 3)
            self.function = function

        def forward(self, x):
            return self.last(self.function(self.first(x)))

    def traced(function) -> Ensemble:
        found = describe(Network(function).eval(), ROWS[:2])
        return Ensemble([Member.dense(found.program, found.layout)], Classification(num_classes=3))

    one, other, third = traced(torch.relu), traced(torch.relu), traced(torch.tanh)
    Ensemble.merge(one, other).save(tmp_path)
    expected = (one.predict_proba(ROWS) + other.predict_proba(ROWS)) / 2
    assert Ensemble.load(tmp_path).predict_proba(ROWS) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(InputError, match="differ in what the networks compute"):
        Ensemble.merge(one, third)


def other_names() -> Ensemble:
    return ensemble(1, task=Classification(class_names=("cat", "cow", "dog"), input_shape=(5,)))


def other_scaling() -> Ensemble:
    task = Classification(class_names=NAMES, input_shape=(5,), scaling=Scaling.by(0.5))
    return ensemble(1, task=task)


def other_columns() -> Ensemble:
    columns = ("a", "b", "c", "d", "e")
    task = Classification(class_names=NAMES, input_shape=(5,), feature_names=columns)
    return ensemble(1, task=task)


def other_task() -> Ensemble:
    return Ensemble([member(1)], Regression(input_shape=(5,), target_names=NAMES))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (other_task, "the task, Regression and Classification"),
        (other_names, r"the class names, \('cat', 'cow', 'dog'\) and \('cat', 'dog', 'cow'\)"),
        (other_scaling, r"the scaling of inputs, by \[0.5\] and by \[1.0\]"),
        (other_columns, r"the feature names, \('a', .*\) and None"),
        (lambda: ensemble(1, hidden=9), "the networks' sizes, .*9.* and .*8"),
        (lambda: ensemble(1, activation="tanh"), "the networks' layers"),
    ],
    ids=["task", "classes", "scaling", "columns", "sizes", "activation"],
)
def test_what_does_not_go_together_is_said_by_name(other, what):
    with pytest.raises(InputError, match=f"ensemble 1 cannot be merged with ensemble 0: .* {what}"):
        Ensemble.merge(ensemble(0), other())


def test_nothing_cannot_be_merged():
    with pytest.raises(InputError, match="nothing to merge"):
        Ensemble.merge()


@pytest.mark.parametrize("flops", [0.3, 0.8, 2.0])
def test_of_all_members_those_are_kept_that_do_best_within_a_budget(flops):
    both = Ensemble.merge(ensemble(0, 1, 2), ensemble(3, 4, sparsity=0.8))
    score = both.evaluate((ROWS, TRUTH))
    kept = both.select((ROWS, TRUTH), Budget(flops=flops))
    assert kept.cost.flops_ratio <= flops
    affordable = [
        nll
        for own, nll in zip(both, score.members["nll"], strict=True)
        if Ensemble([own], both.task).cost.flops_ratio <= flops
    ]
    assert kept.evaluate((ROWS, TRUTH))["nll"] <= min(affordable) + 1e-6
