"""Classes of tokens and pixels: losses and metrics over the positions that count."""

import pytest
import torch
import torch.nn.functional as F

from sparsemble.data import as_dataset
from sparsemble.errors import InputError
from sparsemble.tasks import Classification, Scorer
from sparsemble.tasks.positions import are_classes_first
from sparsemble.tasks.scoring import figures_of

TARGETS = torch.tensor([[0, 1, 2, 1], [2, -100, -100, -100]])
TAGGER = Classification(num_classes=3, target_dims=1, classes_first=False)
SEGMENTER = Classification(num_classes=3, target_dims=1, classes_first=True)


def logits(*members: int) -> torch.Tensor:
    return torch.randn(*members, 2, 4, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("outputs", "targets", "given", "first"),
    [
        ((8, 20, 3), (8, 20), None, False),
        ((8, 3, 20), (8, 20), None, True),
        ((8, 3, 20, 30), (8, 20, 30), None, True),
        ((8, 20, 30, 3), (8, 20, 30), None, False),
        ((8, 3, 3, 7), (8, 3, 7), None, True),  # as many classes as rows
        ((8, 20, 20), (8, 20), True, True),
        ((8, 20, 20), (8, 20), False, False),
    ],
)
def test_the_shape_of_outputs_tells_where_the_classes_are(outputs, targets, given, first):
    assert are_classes_first(outputs, targets, given) is first


@pytest.mark.parametrize(
    ("outputs", "given", "message"),
    [
        ((8, 20, 20), None, r"cannot be told from positions: say Classification\(classes_first"),
        ((8, 3), None, r"must return \(8, 20, classes\) or \(8, classes, 20\), not \(8, 3\)"),
        ((8, 19, 3), None, r"not \(8, 19, 3\)"),
        ((8, 20, 3), True, "classes_first = True: .* elsewhere"),
    ],
)
def test_outputs_that_do_not_tell_are_refused(outputs, given, message):
    with pytest.raises(InputError, match=message):
        are_classes_first(outputs, (8, 20), given)


def test_the_loss_is_pytorchs_mean_over_the_positions_that_count():
    outputs = logits()
    wanted = F.cross_entropy(outputs.movedim(-1, 1), TARGETS)
    torch.testing.assert_close(TAGGER.loss(outputs, TARGETS), wanted)
    torch.testing.assert_close(SEGMENTER.loss(outputs.movedim(-1, 1), TARGETS), wanted)


def test_every_member_has_a_loss_of_its_own():
    outputs = logits(5)
    found = TAGGER.loss(outputs, TARGETS)
    for own, loss in zip(outputs, found, strict=True):
        torch.testing.assert_close(loss, TAGGER.loss(own, TARGETS))
    torch.testing.assert_close(SEGMENTER.loss(outputs.movedim(-1, 2), TARGETS), found)


def test_a_batch_of_padding_only_has_no_loss():
    outputs = logits().requires_grad_()
    loss = TAGGER.loss(outputs, torch.full((2, 4), -100))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not outputs.grad.any()


@pytest.mark.parametrize("members", [(), (5,)])
def test_what_is_taught_of_certain_predictions_is_the_loss(members):
    outputs = logits(*members)
    sure = F.one_hot(TARGETS.clamp_min(0), 3).float()
    taught = TAGGER.taught_loss(outputs, TAGGER.taught_part(sure, TARGETS))
    torch.testing.assert_close(taught, TAGGER.loss(outputs, TARGETS))


def test_probabilities_have_their_classes_last():
    outputs = logits(2)
    evidence = SEGMENTER.evidence(outputs.movedim(-1, 2))
    torch.testing.assert_close(evidence, outputs.softmax(-1))
    mixed = SEGMENTER.mix(evidence)
    assert SEGMENTER.decide(mixed).shape == TARGETS.shape
    assert SEGMENTER.uncertainty(evidence).epistemic.shape == TARGETS.shape
    assert SEGMENTER.diversity(evidence).shape == (2,)


def test_metrics_are_those_of_the_counted_positions_as_examples():
    evidence = logits(2).softmax(-1)
    counted = TARGETS != -100
    alone = Classification(num_classes=3)
    wanted = figures_of(alone, evidence[:, counted], TARGETS[counted])
    found = figures_of(TAGGER, evidence, TARGETS)
    assert found == pytest.approx(wanted)
    scorer = Scorer(TAGGER)
    for row in range(2):  # whatever the batches
        scorer.update(evidence[:, row : row + 1], TARGETS[row : row + 1])
    assert scorer.compute().metrics == pytest.approx(wanted)
    assert scorer.compute().count == 2


def test_an_example_has_one_number_of_every_statistic():
    found = TAGGER.statistics(logits().softmax(-1), TARGETS)
    assert {len(values) for values in found.values()} == {2}
    assert found["positions"].tolist() == [4, 1]


def test_another_number_may_mark_padding():
    targets = TARGETS.masked_fill(TARGETS == -100, -1)
    task = TAGGER.model_copy(update={"ignore": -1})
    torch.testing.assert_close(task.loss(logits(), targets), TAGGER.loss(logits(), TARGETS))
    assert as_dataset(torch.zeros(2, 4), targets, ignore=-1).class_names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (TARGETS.masked_fill(TARGETS == -100, -7), r"label -7 of example 1 .*\(ignored is -100\)"),
        (torch.full((2, 4), -100), "every position is ignored"),
        (TARGETS.float(), "one number per example, or whole numbers for each"),
        (torch.tensor([[0], [1]]), "one number per example"),
        (torch.tensor([0, -100]), "label -100 of example 1 is outside the 1 classes"),
    ],
)
def test_labels_that_are_no_classes_are_refused(targets, message):
    with pytest.raises(InputError, match=message):
        as_dataset(torch.zeros(2, 4), targets)


def test_a_task_without_positions_is_written_down_as_ever():
    assert set(Classification(num_classes=3).model_dump()) == {
        "kind",
        "feature_names",
        "input_shape",
        "class_names",
        "num_classes",
    }
    assert Classification.model_validate(TAGGER.model_dump()) == TAGGER
    assert "classes_first" in TAGGER.model_dump()


def test_answers_for_other_positions_than_those_predicted_are_refused():
    with pytest.raises(InputError, match=r"have shape \(3,\), and the network predicts for \(4,\)"):
        Scorer(TAGGER).update(TAGGER.probabilities(logits(2)), TARGETS[:, :3])
