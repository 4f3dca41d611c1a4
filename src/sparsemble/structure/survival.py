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

from sparsemble.structure.constants import fold_declared
from sparsemble.structure.feeding import producers_of
from sparsemble.structure.layout import Layout
from sparsemble.structure.readings import Seen, fold_read
from sparsemble.structure.units import Role, Slot


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


def survivors(
    layout: Layout, parameters: Mapping[str, Tensor], seen: Seen | None = None
) -> Survivors:
    """Find the units of a masked network that must stay.

    Args:
        layout: Of the network.
        parameters: Its tensors, zeros where weights have gone.
        seen: What runs of it computed, by the names that the layout's links have for it; of a
            network with a layout written by hand constants are found without.
    """
    if seen is None:
        folded, bias_gain = fold_declared(layout, parameters)
    else:
        folded, bias_gain = fold_read(layout, parameters, seen)
    live = _live_units(layout, parameters, folded)
    dead = frozenset(name for name, alive in live.items() if not alive.any())
    kept = {
        name: torch.zeros(1, dtype=torch.long) if name in dead else alive.nonzero().squeeze(1)
        for name, alive in live.items()
    }
    return Survivors(kept, bias_gain, folded, dead)


def _live_units(
    layout: Layout, parameters: Mapping[str, Tensor], folded: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    live = {space.name: torch.full((space.size,), not space.kind.may_go) for space in layout.spaces}
    links = [
        (reader, producer)
        for space in layout.spaces
        for reader in layout.slots_of(space.name, Role.CONSUMER)
        for producer in producers_of(layout, reader) or (None,)
    ]
    reads = {link: _unit_links(layout, parameters[link[0].parameter] != 0, *link) for link in links}
    for reader, _ in links:
        live[reader.space] |= _read_by_no_unit(layout, parameters, reader) & ~folded[reader.space]
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


def _read_by_no_unit(layout: Layout, parameters: Mapping[str, Tensor], reader: Slot) -> Tensor:
    """Units that are read by rows of no space, which are always needed."""
    size = layout.space(reader.space).size
    producers = producers_of(layout, reader)
    if not producers:
        return torch.zeros(size, dtype=torch.bool)
    present = parameters[reader.parameter] != 0
    for producer in producers:
        owned = producer.indices(layout.space(producer.space).size).flatten()
        present = present.index_fill(producer.dim, owned, False)
    return _unit_links(layout, present, reader, None).any(1)
