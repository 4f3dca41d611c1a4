"""The whole description of a network: its spaces and slots, what it multiplies, its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.structure.products import Link, Matrix, UnitProduct
from sparsemble.structure.units import WHOLE, Family, Part, Role, Slot, Space, SpaceKind


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
    unpruned: int = 0
    """How many weights there are that others are computed of: they count, but all of them stay."""
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
        for link in self.links:
            for name in (link.weight, link.bias):
                if name is not None and name not in parameters:
                    raise InputError(f"a link names {name!r}, which the network lacks")


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
