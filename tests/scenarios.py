"""Small networks, layouts and statistics that several test files share."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets import LanguageModel
from sparsemble.runs import RunFolder
from sparsemble.structure import Family, Layout, Matrix, Role, Slot, Space, SpaceKind

STANDARD_ERRORS = 5
"""How far an estimate may lie from the truth: a right one does so once in two million times."""


QUICK = {
    "baseline": "none",
    "chain.chains": 1,
    "chain.epochs": 6,
    "chain.burn_in": 2,
    "chain.interval": 2,
    "retrain.epochs": 2,
}
"""Changes that make a run of the recipe `digits` take a moment."""

LONG = {**QUICK, "chain.epochs": 100_000, "chain.burn_in": 99_998, "chain.interval": 1}
"""Changes that make it outlast any test."""

CLASSES = {
    "network.hidden": [30, 20],
    "chain.chains": 1,
    "chain.epochs": 12,
    "chain.burn_in": 3,
    "chain.interval": 3,
    "chain.sampler.temperature": 1e-4,
    "prior.penalty": 2e-3,
    "retrain.epochs": 2,
}
"""Changes to the recipe `digits` that make the run of `class_run`: three samples of one chain."""

NUMBERS = {
    **CLASSES,
    "name": "diabetes",
    "description": "Numbers: how far a disease goes",
    "data.name": "diabetes",
    "chain.schedule.lr": 0.02,
    "retrain.schedule.lr": 0.02,
}
"""The same that make the run of `number_run`."""

TEXT = {
    "baseline": None,
    "data.portion": 0.05,
    "network.hidden": [10, 8],
    "chain.epochs": 3,
    "chain.burn_in": 0,
    "chain.interval": 1,
    "retrain.epochs": 1,
}
"""Changes to the recipe `grammar` that make the run of `text_run`."""

WORDS = ("<eos>", "<unk>", "a", "b", "c", "d", "e")
"""The vocabulary of `model` and `text`."""


def model(*hidden: int, init_range: float = 1.0, **how: Any) -> LanguageModel:
    """A tiny language model in double precision."""
    return LanguageModel(7, 4, hidden or (5, 4), init_range=init_range, **how).double()


def text(length: int) -> Tensor:
    """Words that follow no rule."""
    return torch.randint(7, (length,))


def assert_close_in_law(
    values: Tensor, *, mean: float, variance: float, excess_kurtosis: float = 0.0
) -> None:
    """Mean and variance of independent `values` are as stated, within five standard errors."""
    values = values.detach().double().flatten()
    count = len(values)
    mean_error = math.sqrt(variance / count)
    variance_error = variance * math.sqrt((2 + excess_kurtosis) / count)
    assert abs(float(values.mean()) - mean) < STANDARD_ERRORS * mean_error
    assert abs(float(values.var()) - variance) < STANDARD_ERRORS * variance_error


def excess_kurtosis(values: Tensor) -> float:
    """`E[(x−m)⁴]/σ⁴ − 3`."""
    centred = values.detach().double().flatten()
    centred = centred - centred.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2 - 3)


def correlation(first: Tensor, second: Tensor) -> float:
    """Pearson's correlation of two equally long tensors."""
    return float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]).double())[0, 1])


def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU, bias: bool = True) -> nn.Sequential:
    """A feed-forward network with random weights and biases, in float64."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out, bias=bias), activation()]
    return nn.Sequential(*layers[:-1]).double()


def full_masks(layout: Layout, network: nn.Module) -> dict[str, Tensor]:
    """Masks that keep every weight."""
    parameters = dict(network.named_parameters())
    return {name: torch.ones(parameters[name].shape, dtype=torch.bool) for name in layout.weights}


def random_masks(layout: Layout, network: nn.Module, density: float) -> dict[str, Tensor]:
    """Masks that keep each weight with probability `density`."""
    return {
        name: torch.rand(mask.shape) < density for name, mask in full_masks(layout, network).items()
    }


def set_parameters(network: nn.Module, values: Mapping[str, Sequence]) -> None:
    """Write parameters out by hand."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in values:
                parameter.copy_(torch.tensor(values[name], dtype=parameter.dtype))


class Recurrent(nn.Module):
    """`h ← relu(Wx + Uh + b)` from `h = 0`, three times, then `y = Vh + c`."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.reading = nn.Linear(inputs, hidden)
        self.recurrent = nn.Linear(hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, outputs)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        drive = self.reading(x)
        hidden = torch.zeros_like(drive)
        for _ in range(3):
            hidden = torch.relu(drive + self.recurrent(hidden))
        return self.output(hidden)


def recurrent_layout(inputs: int, hidden: int, outputs: int) -> Layout:
    """`Recurrent` by hand: one group per hidden unit, holding all weights it owns."""
    weights = (
        Slot("reading.weight", 0, "hidden", Role.PRODUCER),
        Slot("recurrent.weight", 0, "hidden", Role.PRODUCER),
        Slot("recurrent.weight", 1, "hidden", Role.CONSUMER),
        Slot("output.weight", 1, "hidden", Role.CONSUMER),
    )
    return Layout(
        spaces=(
            Space("inputs", inputs, SpaceKind.INPUT),
            Space("hidden", hidden),
            Space("outputs", outputs, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("reading.weight", 1, "inputs", Role.CONSUMER),
            *weights,
            Slot("reading.bias", 0, "hidden", Role.BIAS),
            Slot("output.weight", 0, "outputs", Role.PRODUCER),
            Slot("output.bias", 0, "outputs", Role.BIAS),
        ),
        families=(Family("hidden", weights),),
        matrices=(
            Matrix("step", ("reading.weight", "recurrent.weight")),
            Matrix("output", ("output.weight",)),
        ),
    )


class Skip(nn.Module):
    """`y = V·softplus(Wx + b) + Sx + c`: the inputs reach the outputs on two ways."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, outputs)
        self.skip = nn.Linear(inputs, outputs, bias=False)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.output(nn.functional.softplus(self.hidden(x))) + self.skip(x)


def skip_layout(inputs: int, hidden: int, outputs: int) -> Layout:
    """`Skip` by hand, with outgoing groups."""
    reading = Slot("hidden.weight", 1, "inputs", Role.CONSUMER)
    skipping = Slot("skip.weight", 1, "inputs", Role.CONSUMER)
    deciding = Slot("output.weight", 1, "hidden", Role.CONSUMER)
    return Layout(
        spaces=(
            Space("inputs", inputs, SpaceKind.INPUT),
            Space("hidden", hidden, constant=nn.functional.softplus),
            Space("outputs", outputs, SpaceKind.OUTPUT),
        ),
        slots=(
            reading,
            skipping,
            deciding,
            Slot("hidden.weight", 0, "hidden", Role.PRODUCER),
            Slot("hidden.bias", 0, "hidden", Role.BIAS),
            Slot("output.weight", 0, "outputs", Role.PRODUCER),
            Slot("skip.weight", 0, "outputs", Role.PRODUCER),
            Slot("output.bias", 0, "outputs", Role.BIAS),
        ),
        families=(Family("inputs", (reading, skipping)), Family("hidden", (deciding,))),
        matrices=(
            Matrix("hidden", ("hidden.weight",)),
            Matrix("output", ("output.weight", "skip.weight")),
        ),
    )


def wait_until(condition: Callable[[], bool], looks: int = 45_000) -> None:
    """Look again and again, but not for ever: the limit is for what hangs, no busy machine."""
    for _ in range(looks):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"it did not happen within {looks} looks")


def is_free(folder: Path) -> bool:
    """Does no process work in a run's folder?"""
    try:
        with RunFolder(folder).locked():
            return True
    except InputError:
        return False
