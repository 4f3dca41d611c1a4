"""Scores: added up over batches of any size they are what one computes from scratch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sparsemble.tasks import TASKS, Classification, LanguageModelling, Regression, Scorer, Task
from sparsemble.tasks.scoring import Score, figures_of

MEMBERS, EXAMPLES = 5, 60


def predicted(task: Task) -> tuple[Tensor, Tensor]:
    """Evidence `(members, examples, …)` of a task, and targets."""
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    if isinstance(task, Classification):
        probabilities = (2 * normal(MEMBERS, EXAMPLES, 4)).softmax(-1)
        return probabilities, torch.randint(4, (EXAMPLES,), generator=generator)
    if isinstance(task, Regression):
        evidence = torch.cat([normal(MEMBERS, EXAMPLES, 2), normal(MEMBERS, EXAMPLES, 2).exp()], -1)
        return evidence, normal(EXAMPLES, 2)
    return -normal(MEMBERS, EXAMPLES).abs(), torch.zeros(EXAMPLES).long()


EXAMPLE_TASKS = [
    Classification(num_classes=4),
    Regression(num_targets=2),
    LanguageModelling(words=("<eos>", "a")),
]


@pytest.fixture(params=EXAMPLE_TASKS, ids=lambda task: task.kind)
def task(request) -> Task:
    return request.param


def scored(task: Task, evidence: Tensor, targets: Tensor, size: int) -> Score:
    scorer = Scorer(task)
    for start in range(0, EXAMPLES, size):
        part = slice(start, start + size)
        scorer.update(evidence[:, part], targets[part])
    return scorer.compute()


def test_the_curve_and_each_member_alone_are_what_one_computes_from_scratch(task):
    evidence, targets = predicted(task)
    found = scored(task, evidence, targets, EXAMPLES)
    assert found.count == EXAMPLES
    for number in range(MEMBERS):
        together = figures_of(task, evidence[: number + 1], targets)
        alone = figures_of(task, evidence[number : number + 1], targets)
        for metric in task.metrics:
            assert found.curve[metric.key][number] == pytest.approx(together[metric.key])
            assert found.members[metric.key][number] == pytest.approx(alone[metric.key])


@pytest.mark.parametrize("size", [1, 7, 13, 59])
def test_batches_of_any_size_give_the_same(task, size):
    evidence, targets = predicted(task)
    whole, parts = (scored(task, evidence, targets, each) for each in (EXAMPLES, size))
    assert parts.count == whole.count
    assert parts.diversity == pytest.approx(whole.diversity)
    for key in whole.curve:
        assert parts.curve[key] == pytest.approx(whole.curve[key], rel=1e-9, abs=1e-12)
        assert parts.members[key] == pytest.approx(whole.members[key], rel=1e-9, abs=1e-12)


def test_every_metric_of_the_one_table_is_scored_and_no_other(task):
    found = scored(task, *predicted(task), EXAMPLES)
    keys = [metric.key for metric in task.metrics]
    assert list(found.curve) == list(found.members) == list(found.metrics) == keys
    assert all(len(values) == MEMBERS for values in found.curve.values())
    assert len(set(keys)) == len(keys)


def test_metrics_of_examples_are_the_means_over_them():
    # Three examples by hand: one metric at a time, from the definition.
    evidence = torch.tensor(
        [[[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]], [[0.9, 0.1], [0.8, 0.2], [0, 1]]]
    )
    targets = torch.tensor([0, 1, 1])
    scorer = Scorer(Classification(num_classes=2))
    scorer.update(evidence, targets)
    found = scorer.compute()
    assert found.curve["error"] == pytest.approx([1 / 3, 1 / 3])  # argmax of ½, ½ is the first
    assert found.members["error"] == pytest.approx([1 / 3, 1 / 3])
    nll = -(math.log(0.8) + math.log(0.4) + math.log(0.75)) / 3
    assert found["nll"] == pytest.approx(nll)
    assert found.of_a_member("error") == pytest.approx(1 / 3)
    # Labels of the two: 0 and 0, 1 and 0, 0 and 1.
    assert found.diversity == pytest.approx(2 / 3)


def test_a_root_is_taken_of_the_whole_mean_not_of_each_batch():
    task = Regression(num_targets=1)
    evidence = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]).double()
    scorer = Scorer(task)
    for k, truth in enumerate((3.0, 4.0)):
        scorer.update(evidence[:, k : k + 1], torch.tensor([[truth]]))
    assert scorer.compute()["rmse"] == pytest.approx(math.sqrt(12.5))
    assert scorer.compute()["mae"] == pytest.approx(3.5)


def test_perplexity_is_the_exponential_of_the_mean_loss_and_stays_finite():
    task = LanguageModelling(words=("<eos>", "a"))
    logs = torch.tensor([[0.5, 0.25, 0.125]]).double().log()
    assert figures_of(task, logs, torch.zeros(3))["perplexity"] == pytest.approx(4)
    assert figures_of(task, 1e6 * logs, torch.zeros(3))["perplexity"] == pytest.approx(
        math.exp(700)
    )


@pytest.mark.parametrize("kind", TASKS)
def test_the_metric_that_decides_is_lower_for_the_better_and_shown(kind):
    first = kind.metrics[0]
    assert first.shown
    assert first.better == "lower"


def test_the_best_member_has_the_lowest_metric():
    score = Score(count=3, curve={"error": [0.5]}, members={"error": [0.3, 0.1, 0.2]})
    assert score.best_member("error") == 1


def test_a_score_is_read_at_a_glance():
    score = Score(count=1200, curve={"error": [0.5, 0.25]}, members={"error": [0.5, 0.5]})
    assert str(score) == "error 0.25 (2 members on 1,200)"
