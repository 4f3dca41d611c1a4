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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.structure.sizes import Range, Size


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


@dataclass(frozen=True)
class Matrix:
    """What one multiplication uses: weights side by side, or a part of their rows.

    `parts` names equal parts of the rows that could be multiplied one by one (an LSTM's gates).
    """

    name: str
    parameters: tuple[str, ...]
    part: Part = WHOLE
    parts: tuple[str, ...] = ()
    whole: Matrix | None = None
    """What it was split from."""
    positions: int = 1
    """How often it is multiplied for one example: once for every pixel, or every token."""
    rows: Range | None = None
    """Its rows among those of its one parameter, if they are not all."""
    makes: int = 0
    """The dimension of its parameters that counts rows; all others together are columns."""
    area: tuple[Size, Size] | None = None
    """Rows and columns of one that does not learn, and therefore has no mask."""

    def split(self) -> tuple[Matrix, ...]:
        """Its parts, each a matrix."""
        count = len(self.parts)
        return tuple(
            replace(
                self,
                name=f"{self.name} {name}",
                part=Part(number, count),
                parts=(),
                whole=self,
            )
            for number, name in enumerate(self.parts)
        )


@dataclass(frozen=True)
class Link:
    """One product of what the network computes with a weight.

    Of a traced network it says which value it reads, so that constants can be seen there.
    """

    weight: str
    makes: int
    """The weight's dimension that runs over the units it makes,"""
    reads: int
    """and over those it reads."""
    rows: Range
    columns: Range
    bias: str | None = None
    bias_rows: Range | None = None
    value: str | None = None
    """What it reads; `None` where that is not seen, inside a recurrent layer."""
    feature: int = -1
    """The dimension of it that runs over the units."""
    pads: bool = False
    """Does it also read zeros beside them?"""


@dataclass(frozen=True)
class UnitProduct:
    """A product of two values that a network computes (attention): FLOPs for one example."""

    name: str
    flops: Size


@dataclass(frozen=True)
class Layout:
    """The whole description of a network; `spaces` are listed in the order data flows."""

    spaces: tuple[Space, ...]
    slots: tuple[Slot, ...]
    matrices: tuple[Matrix, ...]
    families: tuple[Family, ...] = ()
    """The groups of its weights, if a grouping has made some; see `grouped`."""
    links: tuple[Link, ...] = ()
    """Every product with a weight, of a traced network."""
    products: tuple[UnitProduct, ...] = ()
    """Products without a weight."""
    constants: frozenset[str] = frozenset()
    """Tensors that do not learn: they lose units like others, but have no groups, and are neither
    pruned nor counted."""
    name: str = "custom"
    """The kind of network, so that a saved ensemble can be described again."""
    grouping: str = ""
    """What made the groups."""

    @property
    def weights(self) -> tuple[str, ...]:
        """Parameters that are pruned and counted: all but biases and followers, in slot order."""
        weights = (slot.parameter for slot in self.slots if self.is_weight(slot))
        return tuple(dict.fromkeys(weights))

    def is_weight(self, slot: Slot) -> bool:
        """Is what a slot holds pruned and counted?"""
        return slot.role.is_weight and slot.parameter not in self.constants

    @property
    def inputs(self) -> Space | None:
        """The input space, if the layout lets inputs go."""
        return next((space for space in self.spaces if space.kind is SpaceKind.INPUT), None)

    @property
    def outputs(self) -> Space:
        """The output space, whose units are never removed."""
        return next(space for space in self.spaces if space.kind is SpaceKind.OUTPUT)

    @property
    def sizes(self) -> dict[str, int]:
        """How many units each space has."""
        return {space.name: space.size for space in self.spaces}

    @property
    def structure(self) -> dict[str, int]:
        """How many units each space has, but for those inside that have to stay."""
        inner = (space for space in self.spaces if space.kind is not SpaceKind.FIXED)
        return {space.name: space.size for space in inner}

    def space(self, name: str) -> Space:
        """The space called `name`."""
        return next(space for space in self.spaces if space.name == name)

    def slots_of(self, space: str, role: Role) -> tuple[Slot, ...]:
        """The slots of one space with one role."""
        return tuple(s for s in self.slots if s.space == space and s.role is role)

    def slots_on(self, parameter: str) -> tuple[Slot, ...]:
        """The slots that index one parameter."""
        return tuple(slot for slot in self.slots if slot.parameter == parameter)

    def grouped(self, families: Sequence[Family], grouping: str = "") -> Layout:
        """The same network with its weights in groups.

        A matrix whose columns are grouped part by part is also multiplied part by part.
        """
        apart = {
            slot.parameter
            for family in families
            for slot in family.slots
            if slot.role is Role.CONSUMER and slot.part != WHOLE
        }
        matrices: list[Matrix] = []
        for matrix in self.matrices:
            splits = matrix.parts and apart & set(matrix.parameters)
            matrices += matrix.split() if splits else (matrix,)
        return replace(self, matrices=tuple(matrices), families=tuple(families), grouping=grouping)

    def ungrouped(self) -> Layout:
        """The same network without groups, its matrices multiplied as a whole again."""
        matrices = tuple(dict.fromkeys(matrix.whole or matrix for matrix in self.matrices))
        return replace(self, matrices=matrices, families=(), grouping="")

    def with_sizes(self, sizes: Mapping[str, int]) -> Layout:
        """The same description with other numbers of units; slots further along move with them."""

        def moved(slot: Slot) -> Slot:
            return replace(slot, offset=slot.offset + self._growth_before(slot, sizes))

        return replace(
            self,
            spaces=tuple(
                replace(
                    space,
                    size=sizes[space.name],
                    silencers=tuple(moved(slot) for slot in space.silencers),
                )
                for space in self.spaces
            ),
            slots=tuple(moved(slot) for slot in self.slots),
            families=tuple(
                Family(family.name, tuple(moved(slot) for slot in family.slots))
                for family in self.families
            ),
        )

    def shape_with(self, sizes: Mapping[str, int], name: str, shape: Sequence[int]) -> list[int]:
        """The shape of parameter `name`, now `shape`, after `with_sizes(sizes)`."""
        result = list(shape)
        for slot in self._places(name):
            result[slot.dim] += self._growth(slot, sizes)
        return result

    def _places(self, parameter: str) -> list[Slot]:
        """One slot for every stretch of the parameter: a unit may own one in two roles."""
        return list({(s.dim, s.offset): s for s in self.slots_on(parameter)}.values())

    def _growth(self, slot: Slot, sizes: Mapping[str, int]) -> int:
        return slot.extent(sizes[slot.space]) - slot.extent(self.space(slot.space).size)

    def _growth_before(self, place: Slot, sizes: Mapping[str, int]) -> int:
        """How much longer the slots on the same dimension that stand before `place` become."""
        return sum(
            self._growth(slot, sizes)
            for slot in self._places(place.parameter)
            if slot.dim == place.dim and slot.offset < place.offset
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
        for kind in ("spaces", "families", "matrices"):
            names = [part.name for part in getattr(self, kind)]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise InputError(f"the layout has two {kind} of the name {twice!r}")
        sizes = {space.name: space.size for space in self.spaces}
        if not any(space.kind is SpaceKind.OUTPUT for space in self.spaces):
            raise InputError("the layout has no output space: say which units are never removed")
        grouped = (slot for family in self.families for slot in family.slots)
        silencing = (slot for space in self.spaces for slot in space.silencers)
        for slot in (*self.slots, *grouped, *silencing):
            _check_slot(slot, sizes, parameters)
        for slot in self.slots:
            if slot.part != WHOLE:
                raise InputError(
                    f"slot of space {slot.space!r} on {slot.parameter!r} is a part: only groups, "
                    "silencers and matrices may be"
                )
        for family in self.families:
            _check_family(family, sizes)
        for matrix in self.matrices:
            _check_matrix(matrix, parameters)


def _check_slot(slot: Slot, sizes: Mapping[str, int], parameters: Mapping[str, Tensor]) -> None:
    if slot.space not in sizes:
        raise InputError(f"slot on {slot.parameter!r} names the unknown space {slot.space!r}")
    if slot.parameter not in parameters:
        raise InputError(
            f"slot of space {slot.space!r} names {slot.parameter!r}, which the network lacks; "
            f"it has {', '.join(parameters)}"
        )
    _check_part(slot.part, parameters[slot.parameter], f"slot of space {slot.space!r}")
    shape = slot.part.of(parameters[slot.parameter]).shape
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
    if not all(slot.role.is_weight for slot in family.slots):
        raise InputError(f"family {family.name!r} holds a bias; biases are in no group")
    for index, first in enumerate(family.slots):
        others = [s for s in family.slots[index + 1 :] if s.parameter == first.parameter]
        if any(s.part.count != first.part.count for s in others):
            raise InputError(f"family {family.name!r} mixes {first.parameter!r} with a part of it")
        clashes = [s for s in others if s.part == first.part]
        if len({first.dim, *(s.dim for s in clashes)}) > 2:
            raise InputError(
                f"family {family.name!r} has slots along more than two dimensions of "
                f"{first.parameter!r}"
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


def _check_matrix(matrix: Matrix, parameters: Mapping[str, Tensor]) -> None:
    for name in matrix.parameters:
        if name not in parameters:
            raise InputError(f"matrix {matrix.name!r} names {name!r}, which the network lacks")
        _check_part(matrix.part, parameters[name], f"matrix {matrix.name!r}")


def _check_part(part: Part, tensor: Tensor, owner: str) -> None:
    if not 0 <= part.number < part.count or tensor.shape[0] % part.count:
        raise InputError(
            f"{owner}: part {part.number} of {part.count} does not fit {tensor.shape[0]} rows"
        )
