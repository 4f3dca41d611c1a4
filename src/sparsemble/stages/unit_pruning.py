"""Pruning to a budget: whole units first, then single weights inside.

A unit's worth is the squared norm of the weights that read it, the paper's outgoing group. Units
go in the order of worth per FLOP saved until the rest is within the FLOPs allowed; of the weights
that are left the largest stay. Removing whole units first is what makes a network fast: a threshold
on single weights at equal FLOPs keeps far fewer of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.structure import Layout, Role

_ROUNDS = 8
"""What a unit saves depends on how many others are left: found by going round."""


def prune_units(
    parameters: Mapping[str, Tensor],
    layout: Layout,
    *,
    flops: float | None = None,
    weights: float | None = None,
) -> dict[str, Tensor]:
    """Masks of a network within a budget.

    Args:
        parameters: The network's, by name; what is zero already counts as pruned.
        layout: Its layout.
        flops: How many are left at most, for one example; by default all units stay.
        weights: How many weights are left at most, with those that cannot be pruned; by default
            all of the units that stay.

    >>> from sparsemble.layouts import feedforward_layout
    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> _ = nn.init.constant_(net[2].weight[:, :6], 0.01)  # six units that are hardly read
    >>> masks = prune_units(dict(net.named_parameters()), feedforward_layout(net), flops=24)
    >>> masks["2.weight"].any(0).nonzero().flatten().tolist()
    [6, 7]
    """
    own = {name: parameters[name].detach().cpu() for name in layout.weights}
    masks = {name: weight != 0 for name, weight in own.items()}
    if flops is not None:
        for name, kept in _units_within(own, layout, flops).items():
            _remove(masks, layout, name, ~kept)
    if weights is None:
        return masks
    count = math.floor(weights) - layout.unpruned
    if layout.unpruned and count < 1:
        raise InputError(
            f"a budget of {weights:,.0f} weights is too small: {layout.unpruned:,} that others are "
            "computed of cannot be pruned"
        )
    if sum(int(mask.sum()) for mask in masks.values()) > count:
        magnitudes = {name: own[name].abs() * mask for name, mask in masks.items()}
        masks = largest(magnitudes, count)
    return masks


def largest(magnitudes: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Masks of the `count` largest numbers of all tensors; of zeros none is worth keeping, unless
    everything stays."""
    flat = torch.cat([own.flatten() for own in magnitudes.values()])
    if count >= len(flat):
        return {name: torch.ones_like(own, dtype=torch.bool) for name, own in magnitudes.items()}
    kept = torch.zeros(len(flat), dtype=torch.bool)
    kept[flat.topk(count, sorted=False).indices] = True
    kept &= flat > 0
    parts = kept.split([own.numel() for own in magnitudes.values()])
    return {
        name: part.view(own.shape)
        for (name, own), part in zip(magnitudes.items(), parts, strict=True)
    }


def least_flops(parameters: Mapping[str, Tensor], layout: Layout) -> int:
    """What the network costs with one unit left in every layer: no budget can ask for less."""
    shapes = {name: parameters[name].shape for name in layout.weights}
    least = {s.name: 1 if s.kind.may_go else s.size for s in layout.spaces}
    return _flops(layout, shapes, least)


def _units_within(own: Mapping[str, Tensor], layout: Layout, limit: float) -> dict[str, Tensor]:
    """Which units of each space stay, so that the network takes at most `limit` FLOPs."""
    shapes = {name: weight.shape for name, weight in own.items()}
    full = {space.name: space.size for space in layout.spaces}
    worth = _worth(own, layout)
    kept = {name: torch.ones(len(values), dtype=torch.bool) for name, values in worth.items()}
    if _flops(layout, shapes, full) <= limit:
        return kept
    if (least := least_flops(own, layout)) > limit:
        raise InputError(
            f"a budget of {limit:,.0f} FLOPs is too small: with one unit in every layer the "
            f"network takes {least:,}"
        )
    sizes = full
    for _ in range(_ROUNDS):
        saved = _saved(layout, shapes, sizes)
        # A unit that saves nothing (of an embedding, which is not multiplied) stays.
        ranks = {
            name: values / saved[name] if saved[name] else torch.full_like(values, math.inf)
            for name, values in worth.items()
        }
        kept = _above_threshold(ranks, layout, shapes, limit)
        sizes = full | {name: int(stays.sum()) for name, stays in kept.items()}
    return kept


def _above_threshold(
    ranks: Mapping[str, Tensor], layout: Layout, shapes: Mapping[str, torch.Size], limit: float
) -> dict[str, Tensor]:
    """The units that rank above the lowest threshold which meets the limit, one at least."""
    full = {space.name: space.size for space in layout.spaces}
    thresholds = torch.cat(list(ranks.values())).unique()
    thresholds = thresholds[thresholds.isfinite()]

    def above(number: int) -> dict[str, Tensor]:
        return {name: (own > thresholds[number]) | _best(own) for name, own in ranks.items()}

    low, high = 0, len(thresholds) - 1
    while low < high:
        middle = (low + high) // 2
        sizes = full | {name: int(stays.sum()) for name, stays in above(middle).items()}
        if _flops(layout, shapes, sizes) <= limit:
            high = middle
        else:
            low = middle + 1
    return above(low)


def _best(values: Tensor) -> Tensor:
    """Marks the first of the largest: no layer is left without a unit."""
    best = torch.zeros(len(values), dtype=torch.bool)
    best[int(values.argmax())] = True
    return best


def _worth(own: Mapping[str, Tensor], layout: Layout) -> dict[str, Tensor]:
    """The squared norm of what reads each unit, of the spaces whose units may go.

    In a traced network normalisations may follow, after which the scale of a weight says nothing:
    there a unit is worth its share of each weight that reads it.
    """
    worth = {}
    for space in layout.spaces:
        if not space.kind.may_go:
            continue
        total = torch.zeros(space.size, dtype=torch.float64)
        for slot in layout.slots_of(space.name, Role.CONSUMER):
            if slot.parameter not in own:
                continue
            squares = own[slot.parameter].double().square().movedim(slot.dim, 0).flatten(1).sum(1)
            if layout.links:
                squares /= squares.sum().clamp_min(torch.finfo(squares.dtype).tiny)
            total += squares[slot.indices(space.size)].sum(1)
        worth[space.name] = total
    return worth


def _saved(
    layout: Layout, shapes: Mapping[str, torch.Size], sizes: Mapping[str, int]
) -> dict[str, float]:
    """FLOPs that one unit of each space takes, all others being left at `sizes`."""
    whole = _flops(layout, shapes, sizes)
    saved = {}
    for space in layout.spaces:
        # Of the last one, what it takes beside the others that are left.
        step = -1 if sizes[space.name] > 1 else 1
        other = {**sizes, space.name: sizes[space.name] + step}
        saved[space.name] = float(abs(_flops(layout, shapes, other) - whole))
    return saved


def _flops(layout: Layout, shapes: Mapping[str, torch.Size], sizes: Mapping[str, int]) -> int:
    """What a network of these sizes takes for one example, all its weights being there."""
    total = sum(product.flops(sizes) for product in layout.products)
    for matrix in layout.matrices:
        if matrix.area is not None:
            rows_of, columns_of = matrix.area
            total += 2 * rows_of.at(sizes) * columns_of.at(sizes) * matrix.positions
            continue
        for name in matrix.parameters:
            shape = layout.shape_with(sizes, name, shapes[name])
            if matrix.rows is not None:
                rows = matrix.rows.at(sizes)
                shape[matrix.makes] = rows.stop - rows.start
            total += 2 * math.prod(shape) * matrix.positions // matrix.part.count
    return total


def _remove(masks: Mapping[str, Tensor], layout: Layout, space: str, gone: Tensor) -> None:
    """Take all weights of some units out."""
    for slot in layout.slots:
        if slot.space == space and layout.is_weight(slot):
            owned = slot.indices(layout.space(space).size)[gone].flatten()
            masks[slot.parameter].index_fill_(slot.dim, owned, False)
