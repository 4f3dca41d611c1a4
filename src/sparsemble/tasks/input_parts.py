"""What the inputs of one example are made of, where they are not one array of numbers.

A task remembers it from the data it learned from, so that predictions are asked for in the same
way: by place or by name, integers as integers. Lengths are not remembered: sequences and pictures
may have any that the network takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sparsemble.data import Arguments
from sparsemble.data.inputs import as_arguments
from sparsemble.errors import InputError
from sparsemble.settings import Settings


class InputPart(Settings):
    """One argument of a network."""

    name: str | None = None
    """What it is called; by default its place says which one it is."""
    dtype: str
    """What its numbers are, floating ones before they get the precision of the weights."""
    dims: int
    """How many dimensions it has, that of the examples included."""

    def of(self, tensor: Tensor, source: str) -> Tensor:
        """A tensor as such a part, if it can be one."""
        if tensor.ndim != self.dims:
            raise InputError(
                f"{source}: shape {tuple(tensor.shape)}, the ensemble was learned with "
                f"{self.dims} dimensions"
            )
        own: torch.dtype = getattr(torch, self.dtype)
        # A file may hold integers as floats, or as longer ones.
        exact = own.is_floating_point or torch.equal(tensor.to(own).to(tensor.dtype), tensor)
        if not exact:
            what = "fractions" if tensor.is_floating_point() else "other numbers"
            raise InputError(
                f"{source}: {what}, the ensemble was learned with {self.dtype}: give such numbers"
            )
        return tensor.to(own)


def parts_of(arguments: Arguments) -> tuple[InputPart, ...]:
    """What the inputs of examples are made of."""
    return tuple(
        InputPart(name=name, dtype=str(tensor.dtype).removeprefix("torch."), dims=tensor.ndim)
        for name, tensor in zip(arguments.names, arguments.tensors, strict=True)
    )


def arranged(values: Any, parts: Sequence[InputPart], source: str) -> Arguments:
    """Inputs in any of the forms they may be given in, as the same parts.

    Args:
        values: A tuple or list in the order of the parts, a dict by their names, or the only one.
        parts: What was learned from.
        source: Where they come from, for messages.
    """
    alone = len(parts) == 1 and parts[0].name is None
    given = as_arguments([values] if alone and not _is_listed(values) else _listed(values), source)
    wanted = tuple(part.name for part in parts)
    if given.names != wanted:
        raise InputError(
            f"{source}: {_in_words(given.names)}, the ensemble was learned with {_in_words(wanted)}"
        )
    fitting = [
        part.of(tensor, f"{source}, input {part.name or place}")
        for place, (part, tensor) in enumerate(zip(parts, given.tensors, strict=True), 1)
    ]
    places = len(given.positional)
    return Arguments(tuple(fitting[:places]), dict(zip(given.named, fitting[places:], strict=True)))


def parts_in(row: Any, parts: Sequence[InputPart], source: str) -> Any:
    """One row of JSON as inputs of one example, for `arranged`.

    Args:
        row: The only part; or an object by the parts' names, or a list in their order.
        parts: What was learned from.
        source: Where it comes from, for messages.
    """
    if len(parts) == 1 and parts[0].name is None:
        return [row]
    if isinstance(row, Mapping):
        return {name: [own] for name, own in row.items()}
    if isinstance(row, list):
        return tuple([own] for own in row)
    raise InputError(f"{source}: a row is a list of inputs, or an object of them by name")


def as_called(values: Any) -> Arguments:
    """Inputs that are known to be the parts, as a network takes them: nothing is looked at.

    >>> as_called({"mask": torch.ones(3), "left": torch.zeros(3)}).names
    ('left', 'mask')
    """
    if isinstance(values, Arguments):
        return values
    if isinstance(values, Mapping):
        return Arguments((), values)
    return Arguments(tuple(values) if isinstance(values, tuple | list) else (values,))


def _is_listed(values: Any) -> bool:
    """Is it a tuple of one array, rather than the array?"""
    if isinstance(values, tuple | list):
        return len(values) == 1 and getattr(values[0], "ndim", 0) > 0
    return isinstance(values, Arguments | Mapping)


def _listed(values: Any) -> Any:
    """A single array as the first input."""
    return values if isinstance(values, Arguments | Mapping | tuple | list) else [values]


def _in_words(names: Sequence[str | None]) -> str:
    named = [repr(name) for name in names if name is not None]
    places = len(names) - len(named)
    words = [f"{places} input{'s' * (places > 1)} without a name"] if places else []
    return " and ".join([*words, *([f"inputs {', '.join(named)}"] if named else [])])
