"""Few examples go through all programs at once where that is quicker, and never to other ends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sparsemble.ensemble import Ensemble, stopwatch
from sparsemble.ensemble.few import MOST, Few
from sparsemble.members import Member, ProgramStack, compact
from sparsemble.tasks import Classification
from sparsemble.tracing import describe

CLASSES = 3


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.first(x))))


class Divided(nn.Module):
    """Divides by a scale of each unit: by zero, where a unit is padded."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x) / self.scale)


class Written(nn.Module):
    """Writes into a tensor that no member owns, which `vmap` refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        filled = x.new_zeros(x.shape[0], 6)
        filled[:, :4] = self.first(x)[:, :4]
        return self.last(filled)


def ensemble_of(kind: type[nn.Module], count: int = 2, without: int = 0) -> Ensemble:
    """Members of one network; all but the first have lost some of the first layer's units."""
    members: list[Member] = []
    for _ in range(count):
        traced = describe(kind(), torch.randn(5, 4))
        masks = {"last.weight": torch.ones(CLASSES, 6, dtype=torch.bool)}
        masks["last.weight"][:, : without if members else 0] = False
        members.append(compact(traced.program, traced.layout, masks).eval())
    return Ensemble(members, Classification(num_classes=CLASSES))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that were computed together; that always seems quicker."""
    sizes: list[int] = []
    own = ProgramStack.__call__

    def counted(self: ProgramStack, inputs: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return own(self, inputs)

    clock = iter(range(1_000_000))
    # Together comes first: every other interval is its own, and the shorter one.
    times = (n // 4 * 10 + (0, 1, 2, 9)[n % 4] for n in clock)
    monkeypatch.setattr(ProgramStack, "__call__", counted)
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(times))
    return sizes


def one_by_one(ensemble: Ensemble, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.stack([member(inputs).softmax(-1) for member in ensemble])


def test_what_is_quicker_is_found_once_for_a_size_and_then_used(calls: list[int]) -> None:
    ensemble, inputs = ensemble_of(Normed, without=2), torch.randn(3, 4)
    found = [ensemble.evidence(inputs) for _ in range(2)]
    assert calls == [3] * 6  # compared, timed thrice, used twice
    for evidence in found:
        torch.testing.assert_close(evidence, one_by_one(ensemble, inputs))
    ensemble(torch.randn(2, 4))
    assert calls == [3] * 6 + [2]


def test_many_examples_and_evaluations_are_computed_one_by_one(calls: list[int]) -> None:
    ensemble = ensemble_of(Normed)
    ensemble.evidence(torch.randn(MOST + 1, 4))
    ensemble.evaluate((torch.randn(3, 4), torch.tensor([0, 1, 2])))
    ensemble.runner()(torch.randn(3, 4))
    assert calls == []


def test_changed_weights_and_statistics_are_seen(calls: list[int]) -> None:
    ensemble, inputs = ensemble_of(Normed), torch.randn(3, 4)
    ensemble(inputs)
    with torch.no_grad():
        ensemble[0].network.get_parameter("last.weight").mul_(3)
        ensemble[1].network.get_buffer("norm.running_mean").add_(1)
    torch.testing.assert_close(ensemble.evidence(inputs), one_by_one(ensemble, inputs))
    assert len(calls) == 6  # nothing was timed again


@pytest.mark.parametrize("kind", [Written, Divided])
def test_what_cannot_be_computed_together_is_computed_one_by_one(
    kind: type[nn.Module], calls: list[int]
) -> None:
    ensemble, inputs = ensemble_of(kind, without=2), torch.randn(3, 4)
    for _ in range(2):
        known = ensemble.runner()(inputs, ensemble.task.evidence)
        assert torch.equal(ensemble.evidence(inputs), known)
    assert calls == [3]  # compared, and never again


def test_a_single_member_is_not_computed_together() -> None:
    assert not Few.fits(list(ensemble_of(Normed, 1)))
