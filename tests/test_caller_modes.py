"""What is learned and predicted has the same bits whatever modes the caller computes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Barrier, Thread

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from small_runs import examples, recipe
from sparsemble.caller_modes import OwnModes
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.learning import Learned, learn
from sparsemble.members import Member
from sparsemble.recipes import Recipe
from sparsemble.samplers import Constant
from sparsemble.stages import DivergenceSettings, draw_samples, retrain
from sparsemble.tasks import Classification


def with_dropout() -> nn.Module:
    """A network whose layout is known."""
    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 3))


class Normalised(nn.Module):
    """A network that is traced, and makes a tensor of the default dtype on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        shift = torch.linspace(0, 1, 16)
        return self.last(
            nn.functional.dropout(self.norm(self.first(x)), 0.2, self.training) + shift
        )


def short(**chain: object) -> Recipe:
    """A run of a moment."""
    how = recipe()
    lengths = {"epochs": 3, "burn_in": 1, "interval": 1, **chain}
    return how.model_copy(
        update={
            "chain": how.chain.model_copy(update=lengths),
            "retrain": how.retrain.model_copy(update={"epochs": 1}),
        }
    )


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def default_device(device: str) -> Iterator[None]:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


MODES: dict[str, Callable[[], object]] = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "float64": lambda: default_dtype(torch.float64),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "default device": lambda: default_device("meta"),
    "device": lambda: torch.device("meta"),
    "deterministic algorithms": deterministic,
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
}


def all_modes() -> dict[str, object]:
    """What a caller has set."""
    return {
        "autocast": torch.is_autocast_enabled("cpu"),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "device": torch.empty(0).device,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomalies": torch.is_anomaly_enabled(),
    }


def bits(learned: Learned) -> list[bytes]:
    """All that members hold, and what they predict."""
    held = [t for member in learned.ensemble for t in member.state_dict().values()]
    with OwnModes():
        found = [t.detach().numpy().tobytes() for t in held]
    return [*found, learned.ensemble.predict_proba(examples()[0]).tobytes()]


@cache
def plainly(make: Callable[[], nn.Module]) -> list[bytes]:
    """The bits without any mode."""
    return bits(learn(make, examples(), short()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "mode"),
    [
        *((with_dropout, mode) for mode in MODES),
        *((Normalised, mode) for mode in ("autocast", "inference", "float64", "device")),
    ],
)
def test_what_is_learned_does_not_depend_on_a_mode_of_the_caller(make, mode) -> None:
    expected = plainly(make)
    with MODES[mode]():
        before = all_modes()
        assert bits(learn(make, examples(), short())) == expected
        assert all_modes() == before


@pytest.mark.parametrize("mode", MODES)
def test_predictions_do_not_depend_on_a_mode_of_the_caller(mode) -> None:
    inputs, targets = examples()
    ensemble = learn(with_dropout, (inputs, targets), short()).ensemble
    tensor = torch.from_numpy(inputs)
    expected = ensemble(tensor)
    probabilities, score = ensemble.predict_proba(inputs), ensemble.evaluate((inputs, targets))
    with MODES[mode]():
        found = Ensemble(list(ensemble), ensemble.task)
        before = all_modes()
        assert torch.equal(found(tensor), expected)
        assert np.array_equal(found.predict_proba(inputs), probabilities)
        assert found.evaluate((inputs, targets)) == score
        assert all_modes() == before


@pytest.mark.parametrize("mode", ["autocast", "inference", "device"])
def test_stages_called_by_hand_do_not_depend_on_a_mode_of_the_caller(mode) -> None:
    torch.manual_seed(0)
    network, how = with_dropout(), short()
    layout = layout_of(network)
    training = Classification().training(examples())

    def stages() -> list[bytes]:
        batches = training.batches(25)
        samples = draw_samples(network, layout, training.task, batches, how.prior, how.chain)
        with OwnModes():
            member = Member.dense(with_dropout(), layout)
            member.network.load_state_dict(samples[0].parameters)
        retrain([member], training.task, batches, how.prior, how.retrain)
        held = [*samples[-1].parameters.values(), *member.state_dict().values()]
        with OwnModes():
            return [tensor.detach().numpy().tobytes() for tensor in held]

    expected = stages()
    with MODES[mode]():
        before = all_modes()
        assert stages() == expected
        assert all_modes() == before


def test_data_made_in_inference_mode_can_be_learned_from() -> None:
    inputs, targets = examples()
    with torch.inference_mode():
        tensors = torch.tensor(inputs), torch.tensor(targets)
        made = with_dropout()
        found = bits(learn(with_dropout, tensors, short()))
        learn(made, tensors, short())
    assert found == plainly(with_dropout)
    assert bits(learn(with_dropout, tensors, short())) == found


def test_a_divergence_is_undone_even_while_anomalies_are_looked_for() -> None:
    wild = short(schedule=Constant(lr=1e3), divergence=DivergenceSettings(slow_down=1e4))
    with torch.autograd.set_detect_anomaly(True):
        found = learn(with_dropout, examples(), wild)
    assert found.history.rollbacks


def test_modes_come_back_after_an_error() -> None:
    with torch.autocast("cpu"), default_dtype(torch.float64), torch.no_grad():
        before = all_modes()
        with pytest.raises(ZeroDivisionError):
            learn(lambda: 1 // 0, examples(), short())
        assert all_modes() == before


def test_modes_of_the_process_come_back_when_the_last_thread_is_done() -> None:
    first_is_in, second_is_in, first_is_out = Barrier(2), Barrier(2), Barrier(2)
    seen: list[torch.dtype] = []

    def first() -> None:
        with OwnModes():
            first_is_in.wait()
            second_is_in.wait()
        first_is_out.wait()

    def second() -> None:
        first_is_in.wait()
        with OwnModes():
            second_is_in.wait()
            first_is_out.wait()
            seen.append(torch.get_default_dtype())

    with default_dtype(torch.float64):
        threads = [Thread(target=first), Thread(target=second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [torch.float32]
        assert torch.get_default_dtype() is torch.float64
