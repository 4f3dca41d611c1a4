"""The vocabulary that describes any network's structure.

A *unit* owns slices of several tensors. A *space* is a set of interchangeable units (the inputs, a
hidden layer). A *slot* says that one dimension of one parameter is indexed by a space. A *family*
has one group per unit of a space: the union of the unit's slices over the family's slots.

Index `i` of a slot's dimension belongs to unit `u` when `i = offset + (t·size + u)·block + b` for
some tile `t < tile` and block position `b < block`: an LSTM's four stacked gates are tiled, the
features of a flattened channel are blocked. A slot or a matrix may be restricted to one of several
equal *parts* of a parameter's rows: a single gate. A *link* is one product: it reads units along
one dimension of a weight and makes those along another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor


class SpaceKind(StrEnum):
    """Where a space stands in the network."""

    INPUT = "input"
    HIDDEN = "hidden"
    FIXED = "fixed"
    """Inside, but needed as it is: what a normalisation runs across."""
    OUTPUT = "output"

    @property
    def may_go(self) -> bool:
        """Can units of it be removed?"""
        return self in (SpaceKind.INPUT, SpaceKind.HIDDEN)


class Role(StrEnum):
    """What a slot's slice does for its unit."""

    PRODUCER = "producer"
    """Weights that compute the unit's value."""
    CONSUMER = "consumer"
    """Weights that read the unit's value."""
    BIAS = "bias"
    """A term added to the unit's value: in no group, never pruned, never counted."""
    FOLLOWER = "follower"
    """What else goes with the unit (a normalisation's scale and statistics, a position's vector):
    like a bias in no group, never pruned, never counted."""

    @property
    def is_weight(self) -> bool:
        """Is it pruned and counted?"""
        return self in (Role.PRODUCER, Role.CONSUMER)


class Folds(StrEnum):
    """Which constants of a unit without inputs can go into the biases of what reads it."""

    ALL = "all"
    ZERO = "zero"
    """Zero only: it is added up over positions, of which there may be more another time."""
    NONE = "none"
    """None, as other values than those of its weights enter it."""


@dataclass(frozen=True)
class Part:
    """The rows `number/count` to `(number + 1)/count` of a parameter."""

    number: int = 0
    count: int = 1

    def of(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        """The view of a tensor's part, below `batch_dims` leading dimensions."""
        if self.count == 1:
            return tensor
        length = tensor.shape[batch_dims] // self.count
        return tensor.narrow(batch_dims, self.number * length, length)


WHOLE = Part()


@dataclass(frozen=True)
class Slot:
    """Dimension `dim` of `parameter` is indexed by the units of `space`.

    With a `part` the slot holds only those rows of the parameter, and `dim` counts within them.
    """

    parameter: str
    dim: int
    space: str
    role: Role
    tile: int = 1
    block: int = 1
    offset: int = 0
    part: Part = WHOLE

    def extent(self, size: int) -> int:
        """Length of the covered range for a space of `size` units."""
        return self.tile * size * self.block

    def indices(self, size: int) -> Tensor:
        """Positions along the dimension that each unit owns, `(size, tile·block)`."""
        positions = torch.arange(self.offset, self.offset + self.extent(size))
        return positions.view(self.tile, size, self.block).transpose(0, 1).flatten(1)


@dataclass(frozen=True)
class Space:
    """`size` interchangeable units.

    `constant` maps the summed biases of units without incoming weights to the constant values they
    emit; `None` where no such value exists (a recurrent unit), which forbids folding. A unit whose
    slices over all `silencers` are zero, or only read such units, emits exactly zero (an LSTM unit
    without cell input); without silencers no unit is known to.
    """

    name: str
    size: int
    kind: SpaceKind = SpaceKind.HIDDEN
    constant: Callable[[Tensor], Tensor] | None = None
    silencers: tuple[Slot, ...] = ()
    folds: Folds = Folds.ALL
    noun: str = "units"
    """What its units are called."""
    reason: str = ""
    """Why they have to stay, if they do."""


@dataclass(frozen=True)
class Family:
    """One group per unit of a space: the union of the unit's slices over `slots`."""

    name: str
    slots: tuple[Slot, ...]

    @property
    def space(self) -> str:
        """The space whose units own the groups."""
        return self.slots[0].space
