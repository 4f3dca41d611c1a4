"""Constants as a layout written by hand declares them: what units without incoming weights emit.

A space says by a function of the summed biases what its idle units emit, and by its silencers
which recurrent units stay at zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sparsemble.structure.feeding import has_incoming, only_fed_by_themselves, producers_of
from sparsemble.structure.layout import Layout
from sparsemble.structure.units import Role, Slot, Space, SpaceKind


def fold_declared(
    layout: Layout, parameters: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Units whose constants can go into biases, for every space, and what the biases gain."""
    folded = _silent_units(layout, parameters)
    gain: dict[str, Tensor] = {}
    for space in layout.spaces:
        if space.kind is not SpaceKind.HIDDEN or space.constant is None:
            continue
        idle = ~has_incoming(layout, parameters, space, folded)
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
        for producer in producers_of(layout, reader):
            bias = _bias_slot(layout, producer)
            if bias is None:
                continue
            others = [d for d in range(weight.ndim) if d != producer.dim]
            rows = producer.indices(layout.space(producer.space).size).flatten()
            contribution = (weight * added.view(shape)).sum(others)[rows]
            total = gain.get(bias.parameter, torch.zeros_like(parameters[bias.parameter]))
            gain[bias.parameter] = total.index_add(0, rows.to(total.device), contribution)


def _silent_units(layout: Layout, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Units that emit exactly zero."""
    silent = {
        space.name: torch.full((space.size,), bool(space.silencers)) for space in layout.spaces
    }
    return only_fed_by_themselves(layout, parameters, silent)


def _all_biased(layout: Layout, reader: Slot) -> bool:
    producers = producers_of(layout, reader)
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
