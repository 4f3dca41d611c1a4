"""Raw inputs at random, in several numbers and lengths: what a deployed ensemble is captured with,
and what it is checked on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsemble.data import Arguments, Inputs
from sparsemble.errors import InputError
from sparsemble.export.deployed import Deployable
from sparsemble.programs import Program

_STEPS, _MORE_STEPS = 6, 9
"""Lengths of sequences, where nothing says which are usual."""


class Examples:
    """Inputs that an ensemble can read.

    Args:
        ensemble: What reads them.
        given: Some of the user's own; by default they are made up.
    """

    def __init__(self, ensemble: Deployable, given: Any = None) -> None:
        self._task = ensemble.task
        network = next(iter(ensemble)).network
        self._program = network if isinstance(network, Program) else None
        self._dtype = next(network.parameters()).dtype
        self._given = None if given is None else self._task.inputs(given)

    @property
    def names(self) -> tuple[str, ...]:
        """What the inputs are called: as the network calls them, if there are several."""
        inputs = self.of(2)
        if not isinstance(inputs, Arguments):
            return ("inputs",)
        if len(inputs.tensors) == 1:
            return (inputs.names[0] or "inputs",)
        called = self._program.blueprint_.evaluating.inputs if self._program else ()
        places = [*called, *(f"input_{k}" for k in range(len(called), len(inputs.tensors)))]
        return tuple(name or places[k] for k, name in enumerate(inputs.names))

    @property
    def by_name(self) -> int:
        """How many of them the network is called with by name."""
        inputs = self.of(2)
        return len(inputs.named) if isinstance(inputs, Arguments) else 0

    def of(self, count: int) -> Inputs:
        """So many examples of one length."""
        if self._given is not None:
            return _repeated(self._given, count, self._task.batch_dim)
        if self._program is not None and self._task.batch_dim == 0:
            return self._traced_with(self._program.blueprint_.lengths, count)
        made = self._task.made_up(count, self._length())
        if made is None:
            raise InputError(
                f"what {type(self._task).__name__} reads is not known: give some inputs "
                "(example=...) to export and check with"
            )
        return made

    def longer(self, count: int) -> Inputs | None:
        """So many of another length, if there is one that can be read."""
        if self._given is not None:
            return None
        if self._program is None:
            made, other = self.of(count), self._task.made_up(count, _MORE_STEPS)
            return other if other is not None and other.shape != made.shape else None
        blueprint = self._program.blueprint_
        others = next(blueprint.other_lengths(), {})
        if set(others) <= self._counting():
            return None
        if self._task.batch_dim == 0:
            return self._traced_with(others, count)
        if any(dim == 0 for dim, _ in blueprint.inputs[0].fixed):
            return None
        return self._task.made_up(count, self._length() + 1)

    def _length(self) -> int:
        """Of sequences, as the network was traced with."""
        if self._program is None:
            return _STEPS
        shape = self._program.blueprint_.inputs[0].shape
        return shape[0] if shape else _STEPS

    def _counting(self) -> set[str]:
        """The lengths that count examples, as a trace calls them: the first of every input."""
        assert self._program is not None
        inputs = self._program.blueprint_.inputs
        return {name for own in inputs for dim, name in own.free if dim == self._task.batch_dim}

    def _traced_with(self, lengths: dict[str, int], count: int) -> Inputs:
        """Such as the network was traced with, before they were scaled."""
        assert self._program is not None
        blueprint = self._program.blueprint_
        lengths = {**lengths, **dict.fromkeys(self._counting(), count)}
        made = blueprint.made_up(dtype=self._dtype, lengths=lengths)
        if getattr(self._task, "input_parts", None) is None:
            scaling = self._task.scalings.get("inputs")
            return made[0] if scaling is None else scaling.undo(made[0])
        places = len(made) - len(blueprint.named)
        named = dict(zip(blueprint.named, made[places:], strict=True))
        return Arguments(tuple(made[:places]), named)


def _repeated(inputs: Inputs, count: int, dim: int) -> Inputs:
    """The examples again and again, until there are so many."""
    if isinstance(inputs, Arguments):
        return inputs.map(lambda own: _repeated_rows(own, count, dim))
    return _repeated_rows(inputs, count, dim)


def _repeated_rows(values: Tensor, count: int, dim: int) -> Tensor:
    rows = torch.arange(count, device=values.device) % values.shape[dim]
    return values.index_select(dim, rows)
