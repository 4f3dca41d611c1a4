"""Growing: the reverse of compaction, to learn on from a member with all units a network may have.

What the member kept goes back to where it stood, so that outputs stay what they were. Units that
had gone are those of a fresh network, but nothing reads them yet: weights that read them are 0, and
learn as soon as that helps.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.members.member import Member
from sparsemble.programs.tensors import tensors_of
from sparsemble.structure import Layout, laid_out
from sparsemble.structure.units import Role


@torch.no_grad()
def grown(member: Member, network: nn.Module) -> nn.Module:
    """A copy of a full network that computes what a member does.

    Args:
        member: Usually pruned and compact.
        network: Of the kind the member was made of, freshly initialised.
    """
    before, units = member.layout.with_sizes(member.origin.sizes), member.origin.units
    full = {name: own.detach().clone() for name, own in tensors_of(network).items()}
    parameters = dict(member.network.named_parameters())
    for name, own in tensors_of(member.network).items():
        if name not in full and name not in parameters:
            continue  # what tracing has added
        if name not in full or full[name].shape != torch.Size(
            member.layout.shape_with(before.sizes, name, own.shape)
        ):
            raise InputError(
                f"the member cannot grow into a {type(network).__name__}: its {name} was of "
                "another shape; give a network of the sizes that it was learned with"
            )
        shape = full[name].shape
        if not shape:  # how many batches were seen
            full[name] = own.detach().clone()
            continue
        placed = laid_out(own.detach(), name, before, units, shape)
        known = laid_out(torch.ones_like(own, dtype=torch.bool), name, before, units, shape)
        full[name] = torch.where(known, placed.to(full[name]), full[name])
        _unread_(full[name], name, before, member)
    whole = copy.deepcopy(network)
    for name, own in tensors_of(whole).items():
        own.copy_(full[name])
    return whole


def _unread_(weight: Tensor, name: str, before: Layout, member: Member) -> None:
    """Make the weights 0 that read units which had gone."""
    for slot in before.slots_on(name):
        if slot.role is Role.CONSUMER:
            size = before.space(slot.space).size
            gone = torch.ones(size, dtype=torch.bool)
            gone[member.origin.units[slot.space].cpu()] = False
            weight.index_fill_(slot.dim, slot.indices(size)[gone].flatten(), 0)
