"""Compaction: from a masked network to a physically smaller one with equal outputs.

`structure` says which units stay, what the biases gain and what is left of every tensor; here that
is put into a copy of the network.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.members.member import Member, Origin
from sparsemble.nets.layers import note_sizes
from sparsemble.programs import Program
from sparsemble.programs.tensors import tensors_of
from sparsemble.structure import Layout
from sparsemble.structure.compaction import all_masks, compacted
from sparsemble.structure.groups import group_sizes
from sparsemble.structure.readings import Seen


def masked(network: nn.Module, masks: Mapping[str, Tensor]) -> nn.Module:
    """A copy of `network` with the weights outside `masks` set to zero."""
    result = copy.deepcopy(network)
    with torch.no_grad():
        for name, parameter in result.named_parameters():
            if name in masks:
                parameter.mul_(masks[name])
    return result


@torch.no_grad()
def compact(network: nn.Module, layout: Layout, masks: Mapping[str, Tensor]) -> Member:
    """Cut `network` down to what its outputs need once the weights outside `masks` are zero.

    Args:
        network: The full one; it is left as it is.
        layout: Its layout.
        masks: Which weights stay, by name; a weight without a mask stays whole.

    >>> from sparsemble.layouts import feedforward_layout
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> masks = {"0.weight": torch.ones(4, 3) > 0, "2.weight": torch.ones(2, 4) > 0}
    >>> masks["2.weight"][:, 1:3] = False
    >>> compact(net, feedforward_layout(net), masks).network
    Sequential(
      (0): Linear(in_features=3, out_features=2, bias=True)
      (1): ReLU()
      (2): Linear(in_features=2, out_features=2, bias=True)
    )
    """
    full = {name: tensor.detach().cpu() for name, tensor in tensors_of(network).items()}
    masks = _whole_masks(full, layout, masks)
    pruned = full | {name: full[name] * mask for name, mask in masks.items()}
    small = compacted(layout, pruned, masks, seen_in(network, layout, pruned))
    origin = Origin(layout.sizes, small.kept, group_sizes(layout, full))
    smaller = filled(network, small.tensors, small.layout.sizes)
    return Member(smaller, small.layout, small.masks, origin)


def compact_further(member: Member, masks: Mapping[str, Tensor]) -> Member:
    """Prune a member further, and cut it down to what is left.

    Args:
        member: Pruned and compact already; it is left as it is.
        masks: Which of its own weights stay.
    """
    own = {name: mask.cpu() for name, mask in member.masks.items()}
    both = {name: mask & masks.get(name, mask).cpu() for name, mask in own.items()}
    smaller = compact(member.network, member.layout, both)
    before, now = member.origin, smaller.origin
    units = {name: before.units[name].cpu()[kept] for name, kept in now.units.items()}
    origin = Origin(before.sizes, units, before.group_sizes)
    return Member(smaller.network, smaller.layout, smaller.masks, origin)


def with_units(
    network: nn.Module,
    layout: Layout,
    parameters: Mapping[str, Tensor],
    units: Mapping[str, Tensor],
) -> Member:
    """A member that keeps all weights of some units.

    Args:
        network: The full one; it is left as it is.
        layout: Its layout.
        parameters: Of a network with these units.
        units: Those of each space, by their numbers in the full one.
    """
    if set(units) != set(layout.sizes):
        raise InputError(f"units of {', '.join(units)}: the network has {', '.join(layout.sizes)}")
    for space in layout.spaces:
        _check_units(space.name, units[space.name], space.size)
    dense = Member.dense(network, layout)
    resized = layout.with_sizes({name: len(kept) for name, kept in units.items()})
    masks = {name: torch.ones_like(parameters[name], dtype=torch.bool) for name in layout.weights}
    origin = Origin(dense.origin.sizes, dict(units), dense.origin.group_sizes)
    return Member(filled(network, parameters, resized.sizes), resized, masks, origin)


def seen_in(network: nn.Module, layout: Layout, tensors: Mapping[str, Tensor]) -> Seen | None:
    """What products read in a run with these tensors, if the network is one that can be watched."""
    if not isinstance(network, Program):
        return None
    return Program(network.blueprint_, tensors, layout.sizes).seen_(layout)


def filled(
    network: nn.Module, tensors: Mapping[str, Tensor], sizes: Mapping[str, int] | None = None
) -> nn.Module:
    """A copy of `network` with these tensors.

    Args:
        network: Left as it is.
        tensors: Its parameters, and buffers if it has any.
        sizes: How many units each space then has; as many as before if they are not given.
    """
    if isinstance(network, Program):
        device = next((t.device for t in tensors_of(network).values()), torch.device("cpu"))
        own = {name: tensor.detach().to(device, copy=True) for name, tensor in tensors.items()}
        program = Program(network.blueprint_, own, network.sizes_ if sizes is None else sizes)
        return program.train(network.training)
    copied = copy.deepcopy(network)
    load_tensors(copied, tensors)
    return copied


def load_tensors(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Replace parameters of `network` by tensors of any size, keeping layers' own sizes true."""
    names: dict[int, list[str]] = {}
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for name, tensor in tensors.items():
        old = network.get_parameter(name)
        device = tensor.device if old.is_meta else old.device
        new = nn.Parameter(tensor.to(device, copy=True), requires_grad=old.requires_grad)
        for alias in names[id(old)]:  # a tied parameter stays one parameter
            path, _, leaf = alias.rpartition(".")
            layer = network.get_submodule(path)
            setattr(layer, leaf, new)
            note_sizes(layer, leaf, tensor.shape)


def _check_units(space: str, units: Tensor, size: int) -> None:
    rising = units.ndim == 1 and len(units) > 0 and bool((units.diff() > 0).all())
    if units.dtype is not torch.long or not rising or not 0 <= units[0] <= units[-1] < size:
        raise InputError(f"{units.flatten().tolist()[:5]} … are no units of {space!r}, of {size}")


def _whole_masks(
    full: Mapping[str, Tensor], layout: Layout, masks: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """A mask for every weight, those that are given checked."""
    for name, mask in masks.items():
        if name not in layout.weights or mask.shape != full[name].shape:
            raise InputError(f"the mask {name!r} of shape {tuple(mask.shape)} fits no weight")
        if mask.dtype is not torch.bool:
            raise InputError(f"the mask {name!r} is of type {mask.dtype}, not torch.bool")
    return all_masks(layout, full, masks)
