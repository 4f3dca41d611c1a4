"""Compaction on tensors: what is left of a masked network's, without the units that can go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsemble.structure.layout import Layout
from sparsemble.structure.narrowing import cut
from sparsemble.structure.readings import Seen
from sparsemble.structure.survival import Survivors, survivors
from sparsemble.structure.units import Role


@dataclass(frozen=True)
class Compacted:
    """A network made smaller: its tensors, the masks of its weights, the units it kept."""

    tensors: dict[str, Tensor]
    masks: dict[str, Tensor]
    kept: dict[str, Tensor]
    layout: Layout


def compacted(
    layout: Layout,
    pruned: Mapping[str, Tensor],
    masks: Mapping[str, Tensor],
    seen: Seen | None = None,
) -> Compacted:
    """Cut tensors down to what the network's outputs need.

    Args:
        layout: Of the network.
        pruned: Its tensors, zero outside the masks.
        masks: Of all its weights.
        seen: As for `survivors`.
    """
    staying = survivors(layout, pruned, seen)
    kept = staying.kept
    tensors = {
        name: cut(tensor + staying.bias_gain.get(name, 0), name, layout, kept)
        for name, tensor in pruned.items()
    }
    own_masks = {
        name: cut(_without_folded(mask, name, layout, staying), name, layout, kept)
        for name, mask in masks.items()
    }
    tensors |= {name: tensors[name] * mask for name, mask in own_masks.items()}
    resized = layout.with_sizes({name: len(units) for name, units in kept.items()})
    return Compacted(tensors, own_masks, kept, resized)


def all_masks(
    layout: Layout, tensors: Mapping[str, Tensor], masks: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """A mask for every weight; one that is not given keeps everything."""
    return {
        name: masks.get(name, torch.ones_like(tensors[name], dtype=torch.bool)).cpu()
        for name in layout.weights
    }


def _without_folded(mask: Tensor, name: str, layout: Layout, staying: Survivors) -> Tensor:
    """The mask without weights that read a folded constant or touch a dead space."""
    mask = mask.clone()
    for slot in layout.slots_on(name):
        owned = slot.indices(layout.space(slot.space).size)
        if slot.role is Role.CONSUMER:
            gone = owned[staying.folded[slot.space]].flatten()
            mask.index_fill_(slot.dim, gone, False)
        if slot.space in staying.dead and slot.role.is_weight:
            mask.index_fill_(slot.dim, owned.flatten(), False)
    return mask
