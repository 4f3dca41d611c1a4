"""Classification: values worked out by hand, and torchmetrics as a second opinion."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_calibration_error,
)

from sparsemble.data import as_dataset
from sparsemble.errors import InputError
from sparsemble.tasks import Classification, Score, Scorer
from sparsemble.tasks.scoring import figures_of
from sparsemble.tasks.uncertainty import Uncertainty

PROBABILITIES = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.25, 0.5, 0.25], [1.0, 0, 0]])
TARGETS = torch.tensor([0, 1, 1, 0])


def random_predictions(
    members: int = 1, examples: int = 500, classes: int = 7
) -> tuple[Tensor, Tensor]:
    """Probabilities `(members, examples, classes)` of very different confidence, and labels."""
    torch.manual_seed(1)
    scale = torch.rand(1, examples, 1) * 6
    logits = torch.randn(members, examples, classes) * scale
    targets = torch.distributions.Categorical(logits=logits[0] / 2).sample()
    return logits.softmax(-1), targets


def metric(key: str, probabilities: Tensor, targets: Tensor) -> float:
    """One metric of one member's probabilities."""
    task = Classification(num_classes=probabilities.shape[-1])
    return figures_of(task, probabilities.unsqueeze(0), targets)[key]


def score(probabilities: Tensor, targets: Tensor) -> Score:
    scorer = Scorer(Classification(num_classes=probabilities.shape[-1]))
    scorer.update(probabilities, targets)
    return scorer.compute()


def disagreement(probabilities: Tensor) -> float:
    task = Classification(num_classes=probabilities.shape[-1])
    return float(task.diversity(probabilities).mean())


def uncertainty(probabilities: Tensor) -> Uncertainty:
    return Classification(num_classes=probabilities.shape[-1]).uncertainty(probabilities)


class TestByHand:
    def test_error_is_the_share_of_wrong_labels(self):
        assert metric("error", PROBABILITIES, TARGETS) == 0.25

    def test_nll_is_the_mean_negative_log_probability_of_the_target(self):
        expected = -(math.log(0.7) + math.log(0.3) + math.log(0.5) + math.log(1.0)) / 4
        assert metric("nll", PROBABILITIES, TARGETS) == pytest.approx(expected)

    def test_nll_stays_finite_when_the_target_had_probability_zero(self):
        # The smallest normal float32 is 2⁻¹²⁶.
        certain = torch.tensor([[1.0, 0.0]])
        found = metric("nll", certain, torch.tensor([1]))
        assert found == pytest.approx(126 * math.log(2))

    def test_brier_is_the_squared_distance_from_the_one_hot_target(self):
        by_example = [
            0.3**2 + 0.2**2 + 0.1**2,
            0.1**2 + 0.7**2 + 0.6**2,
            0.25**2 + 0.5**2 + 0.25**2,
            0.0,
        ]
        assert metric("brier", PROBABILITIES, TARGETS) == pytest.approx(sum(by_example) / 4)

    def test_calibration_error_of_one_bin_is_the_gap_of_confidence_and_accuracy(self, monkeypatch):
        monkeypatch.setattr("sparsemble.tasks.classification.BINS", 1)
        # Confidences 0.7, 0.6, 0.5, 1 with labels right, wrong, right, right: |0.7 − 0.75|.
        assert metric("ece", PROBABILITIES, TARGETS) == pytest.approx(0.05)

    def test_calibration_error_weighs_the_bins_by_their_examples(self, monkeypatch):
        monkeypatch.setattr("sparsemble.tasks.classification.BINS", 2)
        # Two bins: 0.5 (right) falls into (0, ½], the rest into (½, 1]: ¼·0.5 + ¾·|2.3/3 − 2/3|.
        found = metric("ece", PROBABILITIES, TARGETS)
        assert found == pytest.approx(0.25 * 0.5 + 0.75 * (2.3 - 2) / 3)

    def test_a_certain_and_right_prediction_is_perfectly_calibrated(self):
        assert metric("ece", torch.eye(3), torch.arange(3)) == 0

    def test_a_certain_and_wrong_prediction_is_off_by_one(self):
        assert metric("ece", torch.eye(2), torch.tensor([1, 0])) == 1


class TestAgainstTorchmetrics:
    @pytest.mark.parametrize("classes", [2, 7])
    def test_calibration_error_in_fifteen_bins(self, classes):
        probabilities, targets = random_predictions(classes=classes)
        expected = multiclass_calibration_error(
            probabilities[0].double(), targets, num_classes=classes, n_bins=15, norm="l1"
        )
        assert metric("ece", probabilities[0], targets) == pytest.approx(float(expected), abs=1e-6)

    def test_error_is_one_minus_accuracy(self):
        probabilities, targets = random_predictions()
        accuracy = multiclass_accuracy(probabilities[0], targets, num_classes=7, average="micro")
        assert metric("error", probabilities[0], targets) == pytest.approx(1 - float(accuracy))


def test_brier_score_against_a_loop_over_examples_and_classes():
    probabilities, targets = random_predictions(examples=40)
    total = 0.0
    for row, target in zip(probabilities[0].tolist(), targets.tolist(), strict=True):
        total += sum((p - (label == target)) ** 2 for label, p in enumerate(row))
    assert metric("brier", probabilities[0], targets) == pytest.approx(total / 40, rel=1e-6)


class TestDisagreement:
    def test_two_members_that_differ_on_one_example_of_four(self):
        first = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        second = torch.tensor([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9], [0.4, 0.6]])
        assert disagreement(torch.stack([first, second])) == pytest.approx(0.25)

    def test_members_that_never_agree(self):
        assert disagreement(torch.eye(3).unsqueeze(1)) == pytest.approx(1)

    def test_a_single_member_agrees_with_itself(self):
        assert disagreement(random_predictions()[0]) == 0

    def test_it_is_the_share_of_pairs_of_different_members_with_different_labels(self):
        probabilities, _ = random_predictions(members=6)
        labels = probabilities.argmax(-1)
        pairs = [
            float((labels[i] != labels[j]).double().mean())
            for i in range(6)
            for j in range(6)
            if i != j
        ]
        assert disagreement(probabilities) == pytest.approx(sum(pairs) / 30)


class TestScore:
    def test_the_ensemble_is_scored_by_its_mean_probabilities(self):
        # Alone, each member is wrong on one example; their mean is right on both.
        first = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
        second = torch.tensor([[0.4, 0.6], [0.1, 0.9]])
        metrics = score(torch.stack([first, second]), torch.tensor([0, 1]))
        assert metrics["error"] == 0
        assert metrics.of_a_member("error") == 0.5
        assert metrics.diversity == 1
        assert metrics["nll"] == pytest.approx(-math.log(0.65))
        member = -(math.log(0.9) + math.log(0.4)) / 2
        assert metrics.of_a_member("nll") == pytest.approx(member)
        assert metrics["brier"] == pytest.approx(2 * 0.35**2)
        assert metrics["ece"] == pytest.approx(0.35)

    def test_averaging_never_hurts_the_nll(self):
        # Jensen: −log of a mean is at most the mean of −log.
        metrics = score(*random_predictions(members=5))
        assert metrics["nll"] < metrics.of_a_member("nll")


class TestUncertainty:
    def test_members_that_agree_have_entropy_but_no_mutual_information(self):
        same = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]] * 3)
        found = uncertainty(same)
        quarter = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
        assert found.total.tolist() == pytest.approx([math.log(2), quarter])
        assert found.epistemic.tolist() == pytest.approx([0, 0], abs=1e-7)

    def test_certain_members_that_contradict_each_other_are_all_mutual_information(self):
        found = uncertainty(torch.eye(3).unsqueeze(1))
        assert found.total.tolist() == pytest.approx([math.log(3)])
        assert found.epistemic.tolist() == pytest.approx([math.log(3)])

    def test_the_members_own_entropies_are_averaged(self):
        # (1, 0), (¾, ¼), (½, ½) have the mean (¾, ¼): H(¾) in all, (0 + H(¾) + log 2)/3 their own.
        found = uncertainty(torch.tensor([[[1.0, 0.0]], [[0.75, 0.25]], [[0.5, 0.5]]]))
        total = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
        own = (0 + total + math.log(2)) / 3
        assert found.total.tolist() == pytest.approx([total])
        assert found.epistemic.tolist() == pytest.approx([total - own], rel=1e-6)

    def test_mutual_information_is_never_negative_and_never_above_the_entropy(self):
        found = uncertainty(random_predictions(members=4)[0])
        assert bool((found.epistemic >= 0).all())
        assert bool((found.epistemic <= found.total + 1e-6).all())

    def test_what_is_no_mutual_information_is_aleatoric(self):
        found = uncertainty(random_predictions(members=4)[0])
        assert found.aleatoric.tolist() == pytest.approx((found.total - found.epistemic).tolist())


class TestLoss:
    def test_it_is_the_mean_negative_log_probability_of_the_target(self):
        logits, targets = PROBABILITIES[:3].log(), TARGETS[:3]
        expected = -(math.log(0.7) + math.log(0.3) + math.log(0.5)) / 3
        found = Classification(num_classes=3).loss(logits, targets)
        assert float(found) == pytest.approx(expected, rel=1e-6)

    def test_of_a_stack_every_member_has_its_own(self):
        task, targets = Classification(num_classes=7), random_predictions()[1]
        logits = torch.randn(4, len(targets), 7)
        expected = [float(task.loss(own, targets)) for own in logits]
        assert task.loss(logits, targets).tolist() == pytest.approx(expected)

    def test_to_know_nothing_costs_the_logarithm_of_the_classes(self):
        assert Classification(num_classes=7).guess(None) == pytest.approx(math.log(7))


class TestMarginal:
    def test_it_is_the_shares_of_the_classes_each_counted_once_more(self):
        train = as_dataset(torch.zeros(5, 2), torch.tensor([0, 1, 1, 1, 0]), num_classes=3)
        found = Classification(num_classes=3).marginal(train, torch.zeros(4))
        assert found.shape == (1, 4, 3)
        assert found[0, 2].tolist() == pytest.approx([3 / 8, 4 / 8, 1 / 8])


class TestTargets:
    def test_classes_are_matched_by_name_whatever_their_order(self):
        task = Classification(class_names=("cat", "dog", "owl"), input_shape=(2,))
        data = as_dataset(
            torch.zeros(3, 2), np.array(["owl", "cat", "owl"]), class_names=["owl", "cat"]
        )
        ((_, targets),) = task.evaluation(data).batches()
        assert targets.tolist() == [2, 0, 2]

    def test_a_class_that_was_never_learned_is_refused(self):
        task = Classification(class_names=("cat", "dog"), input_shape=(2,))
        data = as_dataset(torch.zeros(1, 2), np.array(["owl"]), class_names=["owl"])
        with pytest.raises(InputError, match="has a class 'owl', the ensemble cat, dog"):
            task.evaluation(data)

    def test_numbers_that_are_no_classes_name_the_task_to_ask_for(self):
        with pytest.raises(InputError, match=r"not whole numbers.*ask for task=Regression\(\)"):
            Classification().training((np.zeros((3, 2)), np.array([0.5, 1.0, 2.0])))

    def test_a_network_with_fewer_outputs_than_classes_is_refused(self):
        with pytest.raises(InputError, match="so there are 3 classes, but the"):
            Classification().training((np.zeros((3, 2)), np.array([0, 1, 2])), outputs=2)

    def test_classes_that_do_not_occur_are_still_classes_of_the_network(self):
        training = Classification().training((np.zeros((3, 2)), np.array([0, 1, 1])), outputs=4)
        assert training.task.class_names == ("0", "1", "2", "3")
        assert training.task.sizes == (2, 4)


@pytest.mark.parametrize("shape", [(0,), (-1,), (10**30,)])
def test_examples_have_a_shape_that_can_be(shape):
    with pytest.raises(InputError, match="input_shape"):
        Classification(input_shape=shape)
