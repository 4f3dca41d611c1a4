"""Which units of a masked network must stay for its outputs to be equal.

Two passes over the layout. *Forward*: a unit without incoming weights emits a constant, which is
folded into the biases of its readers, exactly; a recurrent unit without cell input stays at the
zero it starts from, and so do units that only feed each other. *Backward*: live units are the
least fixpoint from the outputs, a unit is live if a live unit reads it, so self-readers and dead
cycles go. Outputs always stay; a space in which nothing is live keeps one unit, so that shapes
stay valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsemble.structure.layout import Layout, Role, Slot, Space, SpaceKind


@dataclass(frozen=True)
class Survivors:
    """Units that stay, and what the biases gain from the constants that go.

    `folded[space]` marks units whose constant went into `bias_gain`: the weights that read them
    must be set to zero if the unit itself stays. `dead` names spaces that keep one unit only for
    the shapes' sake: none of its weights matters.
    """

    kept: dict[str, Tensor]
    bias_gain: dict[str, Tensor]
    folded: dict[str, Tensor]
    dead: frozenset[str]


def survivors(layout: Layout, parameters: Mapping[str, Tensor]) -> Survivors:
    """Find the units of a masked network (zeros in `parameters`) that must stay."""
    folded, bias_gain = _fold_constants(layout, parameters)
    live = _live_units(layout, parameters, folded)
    dead = frozenset(name for name, alive in live.items() if not alive.any())
    kept = {
        name: torch.zeros(1, dtype=torch.long) if name in dead else alive.nonzero().squeeze(1)
        for name, alive in live.items()
    }
    return Survivors(kept, bias_gain, folded, dead)


def _fold_constants(
    layout: Layout, parameters: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    folded = _silent_units(layout, parameters)
    gain: dict[str, Tensor] = {}
    for space in layout.spaces:
        if space.kind is not SpaceKind.HIDDEN or space.constant is None:
            continue
        idle = ~_has_incoming(layout, parameters, space, folded)
        if not idle.any():
            continue
        value = space.constant(_bias_of(layout, parameters, gain, space))
        readers = layout.slots_of(space.name, Role.CONSUMER)
        if not all(_all_biased(layout, reader) for reader in readers):
            idle &= value == 0
        folded[space.name] = idle
        _read_constants(layout, parameters, gain, space, torch.where(idle, value, 0.0))
    return folded, gain


def constants(
    layout: Layout, parameters: Mapping[str, Tensor], kept: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What the biases gain if all units but `kept` ones emit what they do without inputs."""
    gain: dict[str, Tensor] = {}
    for space in layout.spaces:
        if space.kind is SpaceKind.HIDDEN and space.constant is not None:
            value = space.constant(_bias_of(layout, parameters, gain, space))
            gone = value.index_fill(0, kept[space.name].to(value.device), 0.0)
            _read_constants(layout, parameters, gain, space, gone)
    return gain


def _read_constants(
    layout: Layout,
    parameters: Mapping[str, Tensor],
    gain: dict[str, Tensor],
    space: Space,
    constant: Tensor,
) -> None:
    """Add to `gain` what readers get from units of `space` that emit constants."""
    if not constant.any():
        return
    for reader in layout.slots_of(space.name, Role.CONSUMER):
        weight = parameters[reader.parameter]
        added = _spread_over(constant, reader, weight.shape[reader.dim])
        shape = [1] * weight.ndim
        shape[reader.dim] = -1
        for producer in _producers(layout, reader):
            bias = _bias_slot(layout, producer)
            if bias is None:
                continue
            others = [d for d in range(weight.ndim) if d != producer.dim]
            rows = producer.indices(layout.space(producer.space).size).flatten()
            contribution = (weight * added.view(shape)).sum(others)[rows]
            total = gain.get(bias.parameter, torch.zeros_like(parameters[bias.parameter]))
            gain[bias.parameter] = total.index_add(0, rows.to(total.device), contribution)


def _silent_units(layout: Layout, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Units that emit exactly zero: the greatest set that is only fed by itself."""
    silent = {
        space.name: torch.full((space.size,), bool(space.silencers)) for space in layout.spaces
    }
    changed = True
    while changed:
        changed = False
        for space in layout.spaces:
            for slot in space.silencers:
                fed = _fed_units(layout, parameters, slot, silent)
                changed |= bool((fed & silent[space.name]).any())
                silent[space.name] &= ~fed
    return silent


def _live_units(
    layout: Layout, parameters: Mapping[str, Tensor], folded: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    live = {
        space.name: torch.full((space.size,), space.kind is SpaceKind.OUTPUT)
        for space in layout.spaces
    }
    links = [
        (reader, producer)
        for space in layout.spaces
        for reader in layout.slots_of(space.name, Role.CONSUMER)
        for producer in _producers(layout, reader) or (None,)
    ]
    reads = {link: _unit_links(layout, parameters[link[0].parameter] != 0, *link) for link in links}
    changed = True
    while changed:
        changed = False
        for reader, producer in links:
            used = reads[reader, producer]
            if producer is not None:
                used = used[:, live[producer.space]]
            found = used.any(1) & ~folded[reader.space] & ~live[reader.space]
            if found.any():
                live[reader.space] |= found
                changed = True
    return live


def _has_incoming(
    layout: Layout, parameters: Mapping[str, Tensor], space: Space, folded: Mapping[str, Tensor]
) -> Tensor:
    """Units of `space` with a non-zero weight from a unit that is not itself a constant."""
    incoming = torch.zeros(space.size, dtype=torch.bool)
    for producer in layout.slots_of(space.name, Role.PRODUCER):
        incoming |= _fed_units(layout, parameters, producer, folded)
    return incoming


def _fed_units(
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


def _unit_links(layout: Layout, present: Tensor, reader: Slot, producer: Slot | None) -> Tensor:
    """`(reader units, producer units)`: does any weight of one feed the other?"""
    size = layout.space(reader.space).size
    by_reader = present.movedim(reader.dim, 0)[reader.indices(size)].any(1)
    if producer is None:
        return by_reader.flatten(1)
    dim = producer.dim + (1 if producer.dim < reader.dim else 0)
    by_producer = by_reader.movedim(dim, 1)
    owned = producer.indices(layout.space(producer.space).size)
    return by_producer[:, owned].flatten(2).any(2)


def _producers(layout: Layout, reader: Slot) -> tuple[Slot, ...]:
    """The slots of the units that `reader`'s parameter computes: one space, or several stacked."""
    return tuple(
        s
        for s in layout.slots_on(reader.parameter)
        if s.role is Role.PRODUCER and s.dim != reader.dim
    )


def _all_biased(layout: Layout, reader: Slot) -> bool:
    producers = _producers(layout, reader)
    return bool(producers) and all(_bias_slot(layout, producer) for producer in producers)


def _bias_slot(layout: Layout, producer: Slot) -> Slot | None:
    """A bias of the units of `producer`, with the same arrangement."""
    return next(
        (
            bias
            for bias in layout.slots_of(producer.space, Role.BIAS)
            if (bias.tile, bias.block, bias.offset)
            == (producer.tile, producer.block, producer.offset)
        ),
        None,
    )


def _bias_of(
    layout: Layout, parameters: Mapping[str, Tensor], gain: Mapping[str, Tensor], space: Space
) -> Tensor:
    sample = next(iter(parameters.values()))
    total = sample.new_zeros(space.size)
    for slot in layout.slots_of(space.name, Role.BIAS):
        bias = parameters[slot.parameter] + gain.get(slot.parameter, 0)
        total = total + bias[slot.indices(space.size)].sum(1)
    return total


def _spread_over(per_unit: Tensor, slot: Slot, length: int) -> Tensor:
    spread = per_unit.new_zeros(length)
    owned = slot.indices(len(per_unit))
    spread[owned] = per_unit[:, None].expand(owned.shape)
    return spread
