"""Padding: members of different sizes laid into tensors of one size, along a member dimension.

Every space gets as many units as the largest member has of it; where a member has no unit, its
tensors hold zeros, so that nothing reads it. Inputs are padded to the union of what any member
reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sparsemble.members.member import Member


class Padding:
    """The sizes that have room for all of some members, and where each lies within."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        self.shared = _union_of_inputs(members)
        """The inputs that any member reads, by the name of their space."""
        small = members[0].layout
        self.sizes = {
            space.name: max(member.layout.space(space.name).size for member in members)
            for space in small.spaces
        } | {name: len(union) for name, union in self.shared.items()}
        self.layout = small.with_sizes(self.sizes)
        """The description of one padded network."""

    def stacked(self, name: str, tensors: Sequence[Tensor], fill: float = 0) -> Tensor:
        """The members' versions of one tensor, `fill` where a member has no unit."""
        shape = self.members[0].layout.shape_with(self.sizes, name, tensors[0].shape)
        stacked = tensors[0].new_full((len(tensors), *shape), fill)
        for target, member, tensor in zip(stacked, self.members, tensors, strict=True):
            target[self.region(member, name, target.shape)] = tensor
        return stacked

    def region(self, member: Member, name: str, shape: Sequence[int]) -> tuple[Tensor, ...]:
        """Where a member's tensor lies within the padded one, as an index."""
        units = {space.name: torch.arange(space.size) for space in member.layout.spaces}
        for space, union in self.shared.items():
            units[space] = torch.searchsorted(union, member.origin.units[space])
        positions = [
            self.layout.surviving_positions(name, dim, length, units)
            for dim, length in enumerate(shape)
        ]
        return torch.meshgrid(*positions, indexing="ij") if positions else ()

    def partial_reads(self, device: torch.device) -> tuple[Tensor, int] | None:
        """The inputs that any member reads, and how many there are, if some are read by none."""
        for space, union in self.shared.items():
            size = self.members[0].origin.sizes[space]
            if len(union) < size:
                return union.to(device), size
        return None


def _union_of_inputs(members: Sequence[Member]) -> dict[str, Tensor]:
    """The inputs that any of the members reads, in order, by the name of the input space."""
    space = members[0].layout.inputs
    if space is None:
        return {}
    return {space.name: torch.cat([m.origin.units[space.name] for m in members]).unique()}
