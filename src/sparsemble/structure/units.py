"""The vocabulary that describes any network's structure.

A *unit* owns slices of several tensors. A *space* is a set of interchangeable units (the inputs, a
hidden layer). A *slot* says that one dimension of one parameter is indexed by a space. A *family*
has one group per unit of a space: the union of the unit's slices over the family's slots.

Index `i` of a slot's dimension belongs to unit `u` when `i = offset + (t·size + u)·block + b` for
some tile `t < tile` and block position `b < block`: an LSTM's four stacked gates are tiled, the
features of a flattened channel are blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor

from sparsemble.errors import InputError


class SpaceKind(StrEnum):
    """Where a space stands in the network."""

    INPUT = "input"
    HIDDEN = "hidden"
    OUTPUT = "output"


class Role(StrEnum):
    """What a slot's slice does for its unit."""

    PRODUCER = "producer"
    """Weights that compute the unit's value."""
    CONSUMER = "consumer"
    """Weights that read the unit's value."""
    BIAS = "bias"
    """A term added to the unit's value: in no group, never pruned, never counted."""


@dataclass(frozen=True)
class Space:
    """`size` interchangeable units.

    `constant` maps the summed biases of units without incoming weights to the constant values they
    emit; `None` where no such value exists (a recurrent unit), which forbids folding.
    """

    name: str
    size: int
    kind: SpaceKind = SpaceKind.HIDDEN
    constant: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class Slot:
    """Dimension `dim` of `parameter` is indexed by the units of `space`."""

    parameter: str
    dim: int
    space: str
    role: Role
    tile: int = 1
    block: int = 1
    offset: int = 0

    def extent(self, size: int) -> int:
        """Length of the covered range for a space of `size` units."""
        return self.tile * size * self.block

    def indices(self, size: int) -> Tensor:
        """Positions along the dimension that each unit owns, `(size, tile·block)`."""
        positions = torch.arange(self.offset, self.offset + self.extent(size))
        return positions.view(self.tile, size, self.block).transpose(0, 1).flatten(1)


@dataclass(frozen=True)
class Family:
    """One group per unit of a space: the union of the unit's slices over `slots`."""

    name: str
    slots: tuple[Slot, ...]

    @property
    def space(self) -> str:
        """The space whose units own the groups."""
        return self.slots[0].space


@dataclass(frozen=True)
class Matrix:
    """What one multiplication uses: weights side by side, or a range of their rows."""

    name: str
    parameters: tuple[str, ...]
    rows: tuple[int, int] | None = None


@dataclass(frozen=True)
class Layout:
    """The whole description of a network; `spaces` are listed in the order data flows."""

    spaces: tuple[Space, ...]
    slots: tuple[Slot, ...]
    families: tuple[Family, ...]
    matrices: tuple[Matrix, ...]
    name: str = "custom"
    """What made it, so that a saved ensemble can be described again."""

    @property
    def weights(self) -> tuple[str, ...]:
        """Parameters that are pruned and counted: all but biases, in slot order."""
        return tuple(
            dict.fromkeys(slot.parameter for slot in self.slots if slot.role is not Role.BIAS)
        )

    @property
    def inputs(self) -> Space | None:
        """The input space, if the layout lets inputs go."""
        return next((space for space in self.spaces if space.kind is SpaceKind.INPUT), None)

    @property
    def outputs(self) -> Space:
        """The output space, whose units are never removed."""
        return next(space for space in self.spaces if space.kind is SpaceKind.OUTPUT)

    def space(self, name: str) -> Space:
        """The space called `name`."""
        return next(space for space in self.spaces if space.name == name)

    def slots_of(self, space: str, role: Role) -> tuple[Slot, ...]:
        """The slots of one space with one role."""
        return tuple(s for s in self.slots if s.space == space and s.role is role)

    def slots_on(self, parameter: str) -> tuple[Slot, ...]:
        """The slots that index one parameter."""
        return tuple(slot for slot in self.slots if slot.parameter == parameter)

    def with_sizes(self, sizes: Mapping[str, int]) -> Layout:
        """The same description with other numbers of units; slots further along move with them."""
        moved = {
            slot: replace(slot, offset=slot.offset + self._growth(slot, sizes, slot.offset))
            for slot in self.slots
        }
        return replace(
            self,
            spaces=tuple(replace(space, size=sizes[space.name]) for space in self.spaces),
            slots=tuple(moved.values()),
            families=tuple(
                Family(family.name, tuple(moved[slot] for slot in family.slots))
                for family in self.families
            ),
            matrices=tuple(self._moved_rows(matrix, sizes) for matrix in self.matrices),
        )

    def _moved_rows(self, matrix: Matrix, sizes: Mapping[str, int]) -> Matrix:
        """The same rows where they stand after `with_sizes(sizes)`."""
        if matrix.rows is None:
            return matrix
        start, end = (self._moved_row(matrix.parameters[0], row, sizes) for row in matrix.rows)
        return replace(matrix, rows=(start, end))

    def _moved_row(self, parameter: str, row: int, sizes: Mapping[str, int]) -> int:
        """Where the boundary before `row` goes: whole tiles before it grow or shrink."""
        moved = row
        for slot in self.slots_on(parameter):
            if slot.dim == 0:
                before = slot.extent(self.space(slot.space).size) // slot.tile
                after = slot.extent(sizes[slot.space]) // slot.tile
                tiles = min(max((row - slot.offset) // before, 0), slot.tile)
                moved += tiles * (after - before)
        return moved

    def shape_with(self, sizes: Mapping[str, int], name: str, shape: Sequence[int]) -> list[int]:
        """The shape of parameter `name`, now `shape`, after `with_sizes(sizes)`."""
        result = list(shape)
        for slot in self.slots_on(name):
            grown = slot.extent(sizes[slot.space]) - slot.extent(self.space(slot.space).size)
            result[slot.dim] += grown
        return result

    def _growth(self, place: Slot, sizes: Mapping[str, int], before: int) -> int:
        """How much longer the slots on the same dimension that end by `before` become."""
        return sum(
            slot.extent(sizes[slot.space]) - slot.extent(self.space(slot.space).size)
            for slot in self.slots_on(place.parameter)
            if slot.dim == place.dim and slot.offset < before
        )

    def surviving_positions(
        self, parameter: str, dim: int, length: int, kept: Mapping[str, Tensor]
    ) -> Tensor:
        """Positions along one dimension of a parameter that belong to kept units or to none."""
        survives = torch.ones(length, dtype=torch.bool)
        for slot in self.slots_on(parameter):
            if slot.dim == dim:
                owned = slot.indices(self.space(slot.space).size)
                survives[owned] = False
                survives[owned[kept[slot.space]]] = True
        return survives.nonzero().squeeze(1)

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Raise `InputError` where the description does not fit the parameters."""
        sizes = {space.name: space.size for space in self.spaces}
        if not any(space.kind is SpaceKind.OUTPUT for space in self.spaces):
            raise InputError("the layout has no output space: say which units are never removed")
        for slot in (*self.slots, *(slot for family in self.families for slot in family.slots)):
            _check_slot(slot, sizes, parameters)
        for family in self.families:
            _check_family(family, sizes)
        _check_names(
            (m.name, p) for m in self.matrices for p in m.parameters if p not in parameters
        )


def _check_slot(slot: Slot, sizes: Mapping[str, int], parameters: Mapping[str, Tensor]) -> None:
    if slot.space not in sizes:
        raise InputError(f"slot on {slot.parameter!r} names the unknown space {slot.space!r}")
    if slot.parameter not in parameters:
        raise InputError(
            f"slot of space {slot.space!r} names {slot.parameter!r}, which the network lacks; "
            f"it has {', '.join(parameters)}"
        )
    shape = parameters[slot.parameter].shape
    end = slot.offset + slot.extent(sizes[slot.space])
    if not 0 <= slot.dim < len(shape) or slot.offset < 0 or end > shape[slot.dim]:
        raise InputError(
            f"slot of space {slot.space!r} covers positions {slot.offset}:{end} of dimension "
            f"{slot.dim} of {slot.parameter!r}, whose shape is {tuple(shape)}"
        )


def _check_family(family: Family, sizes: Mapping[str, int]) -> None:
    if not family.slots:
        raise InputError(f"family {family.name!r} has no slots")
    if len({slot.space for slot in family.slots}) > 1:
        raise InputError(f"family {family.name!r} mixes spaces; a group belongs to one unit")
    if any(slot.role is Role.BIAS for slot in family.slots):
        raise InputError(f"family {family.name!r} holds a bias; biases are in no group")
    for index, first in enumerate(family.slots):
        clashes = [s for s in family.slots[index + 1 :] if s.parameter == first.parameter]
        if len(clashes) > 1:
            raise InputError(
                f"family {family.name!r} has more than two slots on {first.parameter!r}"
            )
        for second in clashes:
            size = sizes[family.space]
            if second.dim == first.dim and not (
                first.offset + first.extent(size) <= second.offset
                or second.offset + second.extent(size) <= first.offset
            ):
                raise InputError(
                    f"family {family.name!r} counts parts of {first.parameter!r} twice"
                )


def _check_names(unknown: Iterable[tuple[str, str]]) -> None:
    for matrix, parameter in unknown:
        raise InputError(f"matrix {matrix!r} names {parameter!r}, which the network lacks")
