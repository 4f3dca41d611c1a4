"""A network's computation as data: steps that apply operations to values.

An argument is a number, a word, `None`, a tuple of arguments, or one of the classes here. A size
that depends on how many units there are is a `Size`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Argument = Any
"""`None`, bool, int, float, str, a tuple of arguments, `Ref`, `Held`, `Own`, `Constant`, `Size`."""


@dataclass(frozen=True)
class Ref:
    """An input, or what a step computed."""

    name: str


@dataclass(frozen=True)
class Held:
    """A parameter or buffer."""

    name: str


@dataclass(frozen=True)
class Own:
    """What the network's own parameters have: their `dtype` or `device`; or the `momentum` with
    which it estimates statistics."""

    what: str


@dataclass(frozen=True)
class Constant:
    """One of torch's own: a dtype, a layout or a memory format, by its name."""

    name: str


@dataclass(frozen=True)
class Step:
    """One operation."""

    name: str
    operation: str
    """As the table of operations knows it."""
    arguments: tuple[Argument, ...]
    keywords: tuple[tuple[str, Argument], ...] = ()
    layer: str = ""
    """The module of the user's that it stands for."""

    @property
    def normalises(self) -> bool:
        """Does it normalise by statistics that are kept?"""
        kind = self.operation.removeprefix("aten.").partition(".")[0]
        return kind in ("batch_norm", "instance_norm") and isinstance(self.arguments[3], Held)

    @property
    def is_recurrent(self) -> bool:
        """Is it a recurrent layer, or a step of one?"""
        return self.operation.removeprefix("aten.").startswith(("lstm", "gru", "rnn"))

    @property
    def estimating(self) -> Step:
        """The same step, which normalises by its batch and keeps the batch's statistics."""
        changed = (*self.arguments[:5], True, Own("momentum"), *self.arguments[7:])
        return replace(self, arguments=changed)


@dataclass(frozen=True)
class Graph:
    """Steps in order; `outputs` is what they return, tuples and dicts of `Ref`s."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: Argument

    @property
    def held(self) -> dict[str, None]:
        """The names of the tensors it uses, in order."""
        arguments = [
            *((step.arguments, tuple(own for _, own in step.keywords)) for step in self.steps),
            self.outputs,
        ]
        return {leaf.name: None for leaf in leaves(arguments) if isinstance(leaf, Held)}


def mapped(argument: Argument, change: Callable[[Any], Any]) -> Any:
    """An argument with every leaf of its tuples, lists and dicts changed."""
    if isinstance(argument, tuple | list):
        return type(argument)(mapped(own, change) for own in argument)
    if isinstance(argument, Mapping):
        return {key: mapped(own, change) for key, own in argument.items()}
    return change(argument)


def leaves(argument: Argument) -> Iterator[Any]:
    """All leaves of an argument."""
    if isinstance(argument, tuple | list):
        for own in argument:
            yield from leaves(own)
    elif isinstance(argument, Mapping):
        for own in argument.values():
            yield from leaves(own)
    else:
        yield argument
