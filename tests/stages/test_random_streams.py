"""Chains draw the same numbers whoever else draws: other threads, callbacks, the caller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from small_runs import KillAt, Killed, examples, recipe
from sparsemble.augmentations import InputNoise
from sparsemble.learning import Learned, learn
from sparsemble.stages import Callback

_PATIENCE = 60
"""Seconds after which a test that waits for nobody fails."""


_LONG = recipe()
SHORT = _LONG.model_copy(
    update={
        "chain": _LONG.chain.model_copy(
            update={"epochs": 3, "burn_in": 1, "interval": 1, "augment": InputNoise(std=0.1)}
        ),
        "retrain": _LONG.retrain.model_copy(update={"epochs": 2}),
    }
)
"""A run of a moment, with all that draws numbers."""


def with_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 3))


class Traced(nn.Module):
    """Dropout by a function, and inside a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.GRU(2, 6, num_layers=2, dropout=0.3, batch_first=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        after, _ = self.steps(x.unflatten(1, (4, 2)))
        return self.last(nn.functional.dropout(after[:, -1], 0.2, self.training))


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Some examples."""
    inputs, targets = examples()
    return inputs[:100], targets[:100]


def loader() -> DataLoader[Any]:
    inputs, targets = map(torch.from_numpy, rows())
    return DataLoader(TensorDataset(inputs, targets), 25, shuffle=True)


def bits(learned: Learned) -> list[bytes]:
    return [t.numpy().tobytes() for m in learned.ensemble for t in m.state_dict().values()]


class InTurn(Callback):
    """Waits after every step until the other run has taken it, too."""

    def __init__(self, barrier: Barrier) -> None:
        self._barrier = barrier

    def stepped(self, chain, step, loss, save) -> None:
        self._barrier.wait(_PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "data"), [(with_dropout, rows), (with_dropout, loader), (Traced, rows)]
)
def test_runs_in_two_threads_give_the_bits_of_one_after_the_other(
    make: Callable[[], nn.Module], data: Callable[[], Any]
) -> None:
    alone = bits(learn(make, data(), SHORT))
    barrier = Barrier(2)

    def run(_: int) -> list[bytes]:
        return bits(learn(make, data(), SHORT, callback=InTurn(barrier)))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, range(2))) == [alone, alone]


class Drawing(Callback):
    """Draws from the global generator, as a user's callback may."""

    def stepped(self, chain, step, loss, save) -> None:
        torch.rand(3)

    def sampled(self, sample, save) -> None:
        torch.manual_seed(7)


def test_what_a_callback_draws_changes_nothing_of_a_run() -> None:
    alone = bits(learn(with_dropout, rows(), SHORT))
    assert bits(learn(with_dropout, rows(), SHORT, callback=Drawing())) == alone


@pytest.mark.parametrize("make", [with_dropout, Traced])
def test_the_callers_random_numbers_go_on_as_if_nothing_had_been_learned(make) -> None:
    torch.manual_seed(11)
    expected = torch.rand(5)
    for callback in (None, KillAt("chain", 5)):
        torch.manual_seed(11)
        try:
            learn(make, loader(), SHORT, callback=callback)
        except Killed:
            assert callback is not None
        assert torch.equal(torch.rand(5), expected)


def test_a_callback_sees_the_callers_random_numbers() -> None:
    class Looking(Callback):
        """Remembers what it would draw."""

        def __init__(self) -> None:
            self.seen: set[bytes] = set()

        def stepped(self, chain, step, loss, save) -> None:
            self.seen.add(torch.get_rng_state().numpy().tobytes())

    torch.manual_seed(11)
    own = torch.get_rng_state().numpy().tobytes()
    looking = Looking()
    learn(with_dropout, rows(), SHORT, callback=looking)
    assert looking.seen == {own}
