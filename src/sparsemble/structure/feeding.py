"""What feeds a unit: the weights that bring it something."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sparsemble.structure.layout import Layout
from sparsemble.structure.units import Role, Slot, Space


def has_incoming(
    layout: Layout, parameters: Mapping[str, Tensor], space: Space, folded: Mapping[str, Tensor]
) -> Tensor:
    """Units of `space` with a non-zero weight from a unit that is not itself a constant."""
    incoming = torch.zeros(space.size, dtype=torch.bool)
    for producer in layout.slots_of(space.name, Role.PRODUCER):
        incoming |= fed_units(layout, parameters, producer, folded)
    return incoming


def fed_units(
    layout: Layout, parameters: Mapping[str, Tensor], slot: Slot, idle: Mapping[str, Tensor]
) -> Tensor:
    """Units with a non-zero number in their slice of `slot`, weights of `idle` units apart."""
    present = slot.part.of(parameters[slot.parameter]) != 0
    for reader in layout.slots_on(slot.parameter):
        if reader.role is Role.CONSUMER and reader.dim != slot.dim:
            owned = reader.indices(layout.space(reader.space).size)
            present.index_fill_(reader.dim, owned[idle[reader.space]].flatten(), False)
    others = [dim for dim in range(present.ndim) if dim != slot.dim]
    per_position = present.sum(others) > 0 if others else present
    return per_position[slot.indices(layout.space(slot.space).size)].any(1)


def only_fed_by_themselves(
    layout: Layout, parameters: Mapping[str, Tensor], silent: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The greatest part of `silent` units that no others feed: they emit exactly zero."""
    silent = {name: own.clone() for name, own in silent.items()}
    changed = True
    while changed:
        changed = False
        for space in layout.spaces:
            for slot in space.silencers:
                fed = fed_units(layout, parameters, slot, silent)
                changed |= bool((fed & silent[space.name]).any())
                silent[space.name] &= ~fed
    return silent


def producers_of(layout: Layout, reader: Slot) -> tuple[Slot, ...]:
    """The slots of the units that `reader`'s parameter computes: one space, or several stacked."""
    return tuple(
        s
        for s in layout.slots_on(reader.parameter)
        if s.role is Role.PRODUCER and s.dim != reader.dim
    )
