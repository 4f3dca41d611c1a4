"""Targets from the posterior: what the teacher predicts, and what it makes members learn."""

from __future__ import annotations

import pytest
import torch

from scenarios import WORDS, mlp, model
from sparsemble.augmentations import InputDropout
from sparsemble.data import ArrayBatches, as_dataset
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.priors import NoPrior
from sparsemble.samplers import Constant
from sparsemble.stages import RetrainSettings, retrain
from sparsemble.stages.teaching import Teacher
from sparsemble.tasks import Classification, LanguageModelling

TASK = Classification(num_classes=3)


def members(count: int) -> list[Member]:
    networks = [mlp(4, 6, 3) for _ in range(count)]
    return [Member.dense(network, layout_of(network)) for network in networks]


def batches(size: int = 40) -> ArrayBatches:
    inputs = torch.randn(size, 4, dtype=torch.float64)
    labels = torch.randint(3, (size,))
    return ArrayBatches(as_dataset(inputs, labels, num_classes=3), 10, seed=0, dtype=torch.float64)


def settings(**changes) -> RetrainSettings:
    fields = {"schedule": Constant(lr=0.5), "epochs": 200, "batch_size": 10}
    return RetrainSettings(**(fields | changes))


def test_the_teacher_predicts_the_mean_of_the_samples_probabilities():
    torch.manual_seed(0)
    samples = members(3)
    inputs = torch.randn(5, 4, dtype=torch.float64)
    expected = torch.stack([m.network(inputs).softmax(1) for m in samples]).mean(0)
    torch.testing.assert_close(Teacher(samples, TASK, 1.0).predict(inputs), expected.detach())


def test_a_member_taught_by_the_posterior_alone_learns_its_predictions_and_not_the_labels():
    torch.manual_seed(0)
    samples, (member,) = members(3), members(1)
    data = batches()
    retrain([member], TASK, data, NoPrior(), settings(targets="posterior"), samples=samples)
    teacher = Teacher(samples, TASK, 1.0)
    with torch.no_grad():
        own = member.network(data.inputs).softmax(1)
    assert float((own - teacher.predict(data.inputs)).abs().max()) < 0.05


def test_half_labels_lie_between_labels_and_posterior():
    """At the optimum of a mixed loss the probabilities are the mixed targets."""
    torch.manual_seed(0)
    samples, (member,) = members(3), members(1)
    inputs = torch.eye(4, dtype=torch.float64)[[0, 1, 2]].repeat(10, 1)
    labels = torch.tensor([0, 1, 2]).repeat(10)
    data = ArrayBatches(as_dataset(inputs, labels, num_classes=3), 30, seed=0, dtype=torch.float64)
    retrain([member], TASK, data, NoPrior(), settings(targets=0.5, epochs=600), samples=samples)
    wanted = 0.5 * Teacher(samples, TASK, 1.0).predict(inputs[:3]) + 0.5 * torch.eye(3).double()
    with torch.no_grad():
        own = member.network(inputs[:3]).softmax(1)
    assert torch.allclose(own, wanted, atol=0.02)


def test_targets_from_the_posterior_need_samples():
    with pytest.raises(InputError, match="needs the samples"):
        retrain(members(1), TASK, batches(), NoPrior(), settings(targets="posterior"))


@pytest.mark.parametrize(("targets", "share"), [("labels", 0.0), ("posterior", 1.0), (0.3, 0.3)])
def test_targets_are_named_or_a_share(targets, share):
    assert settings(targets=targets).taught == share


def test_inputs_are_perturbed_while_retraining():
    torch.manual_seed(0)
    plain, perturbed = members(1), members(1)
    perturbed[0].load_state_dict(plain[0].state_dict())
    data = batches()
    retrain(plain, TASK, data, NoPrior(), settings(epochs=1))
    retrain(perturbed, TASK, data, NoPrior(), settings(epochs=1, augment=InputDropout(share=0.5)))
    assert not torch.equal(plain[0].network[0].weight, perturbed[0].network[0].weight)


def test_a_recurrent_teacher_goes_on_from_its_state():
    torch.manual_seed(0)
    task = LanguageModelling(words=WORDS)
    networks = [model(), model()]
    samples = [Member.dense(network, layout_of(network)) for network in networks]
    teacher, again = Teacher(samples, task, 1.0), Teacher(samples, task, 1.0)
    first, second = torch.randint(7, (2, 3, 2))
    teacher.reset()
    teacher.predict(first)
    again.restore(teacher.state())
    assert torch.equal(teacher.predict(second), again.predict(second))
    again.reset()
    assert not torch.equal(teacher.predict(second), again.predict(second))
