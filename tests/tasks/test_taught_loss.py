"""Learning from predictions: the task's own loss, on average over the truth they hold."""

from __future__ import annotations

import math

import pytest
import torch

from scenarios import WORDS
from sparsemble.data import Scaling
from sparsemble.errors import InputError
from sparsemble.tasks import Classification, LanguageModelling, Regression


def test_of_classes_it_is_the_mean_over_every_class_weighted_by_its_probability():
    torch.manual_seed(0)
    task = Classification(num_classes=3)
    outputs = torch.randn(2, 5, 3).double()  # of two members
    prediction = torch.rand(5, 3).double()
    prediction /= prediction.sum(1, keepdim=True)
    expected = torch.zeros(2).double()
    for example in range(5):
        for label in range(3):
            own = task.loss(outputs[:, example : example + 1], torch.tensor([label]))
            expected += prediction[example, label] * own / 5
    torch.testing.assert_close(task.taught_loss(outputs, prediction), expected)
    torch.testing.assert_close(task.taught_loss(outputs[0], prediction), expected[0])


def test_of_numbers_it_is_the_mean_over_targets_drawn_from_the_predicted_law():
    torch.manual_seed(0)
    task = Regression(noise="predicted", num_targets=1).model_copy(
        update={"target_scaling": Scaling(torch.tensor([3.0]), torch.tensor([0.5]))}
    )
    means, deviations = torch.tensor([1.0, 5.0]), torch.tensor([2.0, 1.0])
    law = torch.stack([means, deviations.square()], dim=1).view(1, 2, 2).double()
    outputs = torch.tensor([[0.4, -0.3]]).double()
    component = torch.randint(2, (400_000,))
    drawn = (means[component] + deviations[component] * torch.randn(400_000)).double()
    expected = task.loss(outputs.expand(400_000, 2), drawn.unsqueeze(1))
    taught = task.taught_loss(outputs, law)
    assert float(taught) == pytest.approx(float(expected), rel=5e-3)


def test_of_words_it_is_summed_over_steps_and_averaged_over_streams_as_the_loss_is():
    torch.manual_seed(0)
    task = LanguageModelling(words=WORDS)
    outputs = torch.randn(4, 2, 7).double()
    sure = torch.randint(7, (4, 2))
    logs = torch.full((4, 2, 7), -math.inf).double().scatter(2, sure.unsqueeze(2), 0.0)
    torch.testing.assert_close(task.taught_loss(outputs, logs), task.loss(outputs, sure))
    uniform = torch.full((4, 2, 7), -math.log(7)).double()
    every = torch.stack([task.loss(outputs, torch.full((4, 2), word)) for word in range(7)])
    torch.testing.assert_close(task.taught_loss(outputs, uniform), every.mean())


def test_a_task_that_does_not_say_how_is_named():
    class Own(Classification):
        taught_loss = Classification.__mro__[2].taught_loss

    with pytest.raises(InputError, match="Own does not say how to learn from predictions"):
        Own(num_classes=2).taught_loss(torch.zeros(1, 2), torch.zeros(1, 2))
