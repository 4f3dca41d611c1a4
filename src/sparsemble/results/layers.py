"""The units of an ensemble's layers, before and after pruning."""

from __future__ import annotations

from collections.abc import Sequence

from sparsemble.members import Member
from sparsemble.pages.layers import LayerUnits


def layers_of(members: Sequence[Member]) -> list[LayerUnits]:
    """Every layer's, in the mean of the members."""
    before = members[0].origin.sizes
    return [
        LayerUnits(
            space.name,
            space.noun,
            sum(member.layout.sizes[space.name] for member in members) / len(members),
            before[space.name],
            "" if space.kind.may_go else space.reason or f"{space.kind.value}s stay",
        )
        for space in members[0].layout.spaces
    ]
