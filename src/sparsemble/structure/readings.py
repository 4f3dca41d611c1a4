"""Constants as they are read: which units of a traced network emit one, and where it can go.

Structure says *which* unit is idle: no weight brings it anything. *What* it emits is read from
runs of the masked network, at every product that reads the unit: normalisations, residual sums and
activations in between need no rules of their own. A constant goes into the bias of the product that
reads it if it is the same everywhere; only zero can be left out where zeros are padded, where there
is no bias, inside a recurrent layer, and where it is added up over positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from sparsemble.structure.feeding import has_incoming, only_fed_by_themselves
from sparsemble.structure.layout import Layout
from sparsemble.structure.products import Link
from sparsemble.structure.units import Folds, Role, Slot, Space, SpaceKind

Seen = Mapping[str, Sequence[Tensor]]
"""What runs of the masked network computed, by the names that links have for it."""

_ROUNDINGS = 32
"""By so many units in the last place a constant may differ between runs of other lengths."""


def fold_read(
    layout: Layout, tensors: Mapping[str, Tensor], seen: Seen
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Units whose constants can go into biases, for every space, and what the biases gain."""
    folded = _silent(layout, tensors, seen)
    gain: dict[str, Tensor] = {}
    changed = True
    while changed:
        changed = False
        for space in layout.spaces:
            if space.kind is not SpaceKind.HIDDEN or space.folds is Folds.NONE:
                continue
            idle = ~has_incoming(layout, tensors, space, folded) & ~folded[space.name]
            if not idle.any():
                continue
            readers = _readers(layout, space, tensors, seen)
            idle &= _can_be_folded(layout, space, readers)
            if idle.any():
                _add(layout, readers, idle, tensors, gain)
                folded[space.name] = folded[space.name] | idle
                changed = True
    return folded, gain


def constants_read(
    layout: Layout, tensors: Mapping[str, Tensor], kept: Mapping[str, Tensor], seen: Seen
) -> dict[str, Tensor]:
    """What the biases gain if all units but `kept` ones go, as far as they emit constants."""
    gain: dict[str, Tensor] = {}
    for space in layout.spaces:
        gone = torch.ones(space.size, dtype=torch.bool).index_fill(0, kept[space.name].cpu(), False)
        if space.kind is SpaceKind.HIDDEN and gone.any():
            readers = _readers(layout, space, tensors, seen)
            _add(layout, readers, gone & _can_be_folded(layout, space, readers), tensors, gain)
    return gain


_Readers = Sequence[tuple[Slot, Link, Tensor]]
"""Where units are read, by which product, and what it reads of each."""


def _readers(layout: Layout, space: Space, tensors: Mapping[str, Tensor], seen: Seen) -> _Readers:
    return [
        (slot, link, _read(layout, space, slot, link, tensors, seen))
        for slot in layout.slots_of(space.name, Role.CONSUMER)
        for link in layout.links
        if (link.weight, link.reads) == (slot.parameter, slot.dim)
    ]


def _can_be_folded(layout: Layout, space: Space, readers: _Readers) -> Tensor:
    """Units whose constants can go into the biases of all that reads them."""
    can = torch.ones(space.size, dtype=torch.bool)
    for (_, link, values), others in zip(readers, _sharing(layout, readers), strict=True):
        can &= _can_fold(space, link, values, others)
    return can


def _read(
    layout: Layout,
    space: Space,
    slot: Slot,
    link: Link,
    tensors: Mapping[str, Tensor],
    seen: Seen,
) -> Tensor:
    """What a product reads of each unit, `(units, positions)`: NaN where that varies, or where it
    is not seen; 0 at positions that belong to other products."""
    weight = tensors[link.weight]
    along = weight.new_zeros(weight.shape[link.reads])
    columns = link.columns.at(layout.sizes)
    if link.value is None:
        along[columns] = torch.nan
    else:
        runs = [own.movedim(link.feature, -1).flatten(0, -2) for own in seen[link.value]]
        first = runs[0][0]
        # A mean of equal numbers is rounded differently for other lengths.
        near = _ROUNDINGS * torch.finfo(first.dtype).eps * first.abs()
        same = torch.ones_like(first, dtype=torch.bool)
        for own in runs:
            same &= (own.amax(0) == own.amin(0)) & ((own[0] - first).abs() <= near)
        along[columns] = torch.where(same, first, torch.nan).to(along.dtype)
    return along[slot.indices(space.size)]


def _can_fold(space: Space, link: Link, values: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Which units' constants can go into the bias of a product; `others` share the bias."""
    zero = (values == 0).all(1)
    known = ~values.isnan().any(1)
    if link.pads or link.bias is None or link.value is None or space.folds is Folds.ZERO:
        return zero
    for other in others:
        known &= (other == values).all(1)
    return known


def _sharing(layout: Layout, readers: _Readers) -> list[list[Tensor]]:
    """For each product what others read that share its bias; NaN if that is for another weight."""
    result = []
    for slot, link, values in readers:
        same = [
            own
            for other_slot, other, own in readers
            if other is not link
            and other.bias == link.bias
            and other_slot == slot
            and (other.weight, other.rows) == (link.weight, link.rows)
        ]
        sharing = sum(
            other.bias == link.bias and other.bias_rows == link.bias_rows
            for other in layout.links
            if other is not link and other.value is not None
        )
        foreign = link.bias is not None and sharing > len(same)
        result.append([*same, values.new_full((1,), torch.nan)] if foreign else same)
    return result


def _add(
    layout: Layout,
    readers: _Readers,
    idle: Tensor,
    tensors: Mapping[str, Tensor],
    gain: dict[str, Tensor],
) -> None:
    """Add what the products read of idle units to their biases."""
    done: set[tuple[object, ...]] = set()
    for slot, link, values in readers:
        use = (link.weight, link.rows, link.bias, slot)
        if link.bias is None or link.bias_rows is None or use in done:
            continue
        done.add(use)  # a weight that is used twice has one bias
        weight = tensors[link.weight]
        along = weight.new_zeros(weight.shape[link.reads])
        along[slot.indices(len(idle))] = torch.where(idle[:, None], values, 0.0)
        shape = [1] * weight.ndim
        shape[link.reads] = -1
        others = [dim for dim in range(weight.ndim) if dim != link.makes]
        added = (weight * along.view(shape)).sum(others)[link.rows.at(layout.sizes)]
        total = gain.setdefault(link.bias, torch.zeros_like(tensors[link.bias]))
        total[link.bias_rows.at(layout.sizes)] += added


def _silent(layout: Layout, tensors: Mapping[str, Tensor], seen: Seen) -> dict[str, Tensor]:
    """Recurrent units that stay at zero: by their weights, and as they are read everywhere.

    Weights alone do not say: between a state and what reads it may stand a sigmoid.
    """
    silent = {}
    for space in layout.spaces:
        own = torch.full((space.size,), bool(space.silencers) and space.folds is not Folds.NONE)
        if space.silencers:
            for slot in layout.slots_of(space.name, Role.CONSUMER):
                for link in layout.links:
                    reads = (link.weight, link.reads) == (slot.parameter, slot.dim)
                    if reads and link.value is not None:
                        values = _read(layout, space, slot, link, tensors, seen)
                        own &= (values == 0).all(1)
        silent[space.name] = own
    return only_fed_by_themselves(layout, tensors, silent)
