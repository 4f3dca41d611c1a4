"""Many examples, computed some at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from scenarios import mlp
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.tasks import Classification, Evaluation
from sparsemble.tracing import describe


class OfTheAnswer(Classification):
    """Keeps what is said of the right class alone."""

    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        assert targets is not None
        index = targets.expand(outputs.shape[:-1]).unsqueeze(-1)
        return super().evidence(outputs).gather(-1, index)


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 2, 3), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).relu().mean((-1, -2)))


def stacked(task: Classification) -> tuple[Ensemble, Tensor]:
    networks = mlp(6, 5, 3), mlp(6, 5, 3)
    members = [Member.dense(own, layout_of(own)) for own in networks]
    return Ensemble(members, task), torch.randn(1100, 6, dtype=torch.float64)


def traced(task: Classification) -> tuple[Ensemble, Tensor]:
    inputs = torch.randn(1100, 1, 5, 5, dtype=torch.float64)
    described = [describe(Pictures().double(), inputs[:2]) for _ in range(2)]
    members = [Member.dense(own.program, own.layout) for own in described]
    return Ensemble(members, task), inputs


@pytest.mark.parametrize("made", [stacked, traced])
def test_evidence_may_depend_on_the_answers_of_many_examples(made):
    torch.manual_seed(0)
    ensemble, inputs = made(OfTheAnswer(num_classes=3))
    targets = torch.randint(3, (len(inputs),))
    held = Evaluation("all", len(inputs), lambda: [(inputs, targets)])
    ((evidence, answers),) = ensemble.scored(held)
    with torch.no_grad():
        outputs = torch.stack([member(inputs) for member in ensemble])
    assert torch.equal(answers, targets)
    expected = ensemble.task.evidence(outputs, targets)
    torch.testing.assert_close(evidence, expected, rtol=1e-12, atol=1e-12)


def test_traced_networks_take_some_examples_at_a_time():
    torch.manual_seed(0)
    ensemble, inputs = traced(Classification(num_classes=3))
    with torch.no_grad():
        expected = torch.stack([member(inputs).softmax(-1) for member in ensemble]).mean(0)
    taken = []
    for member in ensemble:
        member.register_forward_pre_hook(lambda _, given: taken.append(len(given[0])))
    torch.testing.assert_close(ensemble.predictive(inputs), expected, rtol=1e-6, atol=1e-6)
    assert taken == [512, 512, 512, 512, 76, 76]
