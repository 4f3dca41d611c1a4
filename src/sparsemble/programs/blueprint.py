"""What all programs of one traced network have in common, and what their inputs are like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.programs.graph import Graph
from sparsemble.programs.lengths import Expression, holds, others, written

_COLUMNS = 1000
"""Of integers, of which the largest are remembered."""


@dataclass(frozen=True)
class InputRange:
    """What an input was like when the network was traced: examples can be made up from it."""

    shape: tuple[int, ...]
    dtype: str
    low: float
    high: float
    fixed: tuple[tuple[int, int], ...] = ()
    """Dimensions, and the lengths they must have: the network was unrolled along them."""
    free: tuple[tuple[int, str], ...] = ()
    """Other dimensions, and what their lengths are called: those of one name are equal."""
    columns: tuple[float, ...] = ()
    """The largest of every column, of integers that may be of different kinds."""

    @classmethod
    def of(
        cls,
        tensor: Tensor,
        fixed: Sequence[tuple[int, int]] = (),
        free: Sequence[tuple[int, str]] = (),
    ) -> InputRange:
        """The range of a tensor; of what is no number in it (masks of -inf) nothing is known."""
        numbers = tensor.double()
        finite = numbers[numbers.isfinite()]
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
        if tensor.dtype is torch.bool and tensor.numel():
            high = float(numbers.mean())
        columns: tuple[float, ...] = ()
        if not tensor.is_floating_point() and tensor.ndim == 2 and tensor.numel():
            columns = tuple(numbers[:, :_COLUMNS].amax(0).tolist())
        dtype = str(tensor.dtype).removeprefix("torch.")
        return cls(tuple(tensor.shape), dtype, low, high, tuple(fixed), tuple(free), columns)

    def check(self, tensor: Tensor) -> None:
        """Raise `InputError` if a tensor has another length than it must."""
        for dim, length in self.fixed:
            if dim >= tensor.ndim or tensor.shape[dim] != length:
                raise InputError(
                    f"an input of shape {tuple(tensor.shape)}: the network was traced with a "
                    f"length of {length} along dimension {dim}, and depends on it"
                )

    def made_up(
        self, generator: torch.Generator, dtype: torch.dtype, lengths: Mapping[str, int]
    ) -> Tensor:
        """A tensor of such numbers; floating ones of another type if so asked."""
        own: torch.dtype = getattr(torch, self.dtype)
        shape = list(self.shape)
        for dim, name in self.free:
            shape[dim] = lengths.get(name, shape[dim])
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
        if own is torch.bool:
            chosen = drawn < self.high
            if chosen.ndim:
                chosen.select(-1, 0).fill_(self.high > 0.5)  # nobody is masked altogether
            return chosen
        if own.is_floating_point:
            return (self.low + drawn * (self.high - self.low)).to(dtype)
        highest = torch.full((shape[-1] if shape else 1,), self.high, dtype=torch.float64)
        known = torch.tensor(self.columns[: len(highest)], dtype=torch.float64)
        highest[: len(known)] = known
        return (self.low + (drawn * (highest - self.low + 1)).floor()).to(own)


@dataclass(frozen=True)
class Blueprint:
    """What all programs of one traced network have in common."""

    training: Graph
    evaluating: Graph
    tensors: tuple[str, ...]
    """What its programs hold, in order."""
    parameters: frozenset[str]
    """Which of its tensors are parameters,"""
    frozen: frozenset[str]
    """which of them do not learn,"""
    aliases: tuple[tuple[str, str], ...]
    """and further names of tied ones."""
    inputs: tuple[InputRange, ...]
    named: tuple[str, ...] = ()
    """Names of the arguments that it was called with by name, which come last."""
    conditions: tuple[Expression, ...] = ()
    """On the lengths of inputs: with others the network computes something else."""
    paths: tuple[str, ...] = ()
    """Where the tensors stand in tuples and dicts of inputs, as `paths_of` writes them."""

    def __deepcopy__(self, memo: object) -> Blueprint:
        """Itself: nothing of it ever changes."""
        return self

    def made_up(
        self,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        lengths: Mapping[str, int] | None = None,
    ) -> list[Tensor]:
        """Inputs such as the network was traced with, at random; of other lengths if so asked."""
        generator = torch.Generator().manual_seed(seed)
        return [own.made_up(generator, dtype, lengths or {}) for own in self.inputs]

    @property
    def lengths(self) -> dict[str, int]:
        """The free lengths of the inputs that the network was traced with, by name."""
        return {name: own.shape[dim] for own in self.inputs for dim, name in own.free}

    def other_lengths(self) -> Iterator[dict[str, int]]:
        """Lengths near those the network was traced with, which it should be able to read."""
        return others(self.lengths, self.conditions)

    def check(self, inputs: Sequence[Tensor]) -> None:
        """Raise `InputError` if inputs have lengths for which the network was not traced."""
        if len(inputs) != len(self.inputs):
            raise InputError(f"{len(inputs)} inputs were given to a network of {len(self.inputs)}")
        for own, tensor in zip(self.inputs, inputs, strict=False):
            own.check(tensor)
        lengths = self._lengths(inputs)
        for condition in self.conditions:
            if not holds(condition, lengths):
                raise InputError(
                    f"inputs of shapes {', '.join(str(tuple(x.shape)) for x in inputs)}: the "
                    f"network was traced for lengths with {written(condition)}, and computes "
                    "something else for others; trace it with such an example"
                )

    def _lengths(self, inputs: Sequence[Tensor]) -> dict[str, int]:
        lengths: dict[str, int] = {}
        for own, tensor in zip(self.inputs, inputs, strict=False):
            for dim, name in own.free:
                length = tensor.shape[dim] if dim < tensor.ndim else 0
                if lengths.setdefault(name, length) != length:
                    raise InputError(
                        f"an input of shape {tuple(tensor.shape)}: its dimension {dim} must have "
                        f"the length {lengths[name]} of {name}"
                    )
        return lengths
