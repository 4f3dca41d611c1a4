"""What stage 1 gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.members import seen_in
from sparsemble.structure import Layout, narrowed


@dataclass(frozen=True)
class Sample:
    """One draw from the posterior: the network's parameters after a step of a chain, or their mean
    over the interval that ends there, with all else that the network holds."""

    chain: int
    step: int
    parameters: Mapping[str, Tensor]
    units: Mapping[str, Tensor] = field(default_factory=dict)
    """The units of each space that the network has left, by their numbers; empty if all."""


def mean_of(samples: Sequence[Sample], layout: Layout, network: nn.Module) -> Sample:
    """The mean of a chain's samples, in order, with the units that the last one has left.

    Args:
        samples: Of one chain.
        layout: Of the network before any unit has gone.
        network: Of their kind.
    """
    if len(samples) == 1:
        return samples[0]
    last = samples[-1]
    alike = [_with_units_of(last, sample, layout, network) for sample in samples]
    mean = {
        name: torch.stack([parameters[name] for parameters in alike]).mean(0)
        if own.is_floating_point()
        else own
        for name, own in last.parameters.items()
    }
    return Sample(last.chain, last.step, mean, last.units)


def _with_units_of(
    last: Sample, sample: Sample, layout: Layout, network: nn.Module
) -> Mapping[str, Tensor]:
    """A sample's parameters without the units that have gone since."""
    whole = {space.name: torch.arange(space.size) for space in layout.spaces}
    had, left = sample.units or whole, last.units or whole
    if all(torch.equal(left[name], had[name]) for name in had):
        return sample.parameters
    if not all(bool(torch.isin(left[name], had[name]).all()) for name in had):
        raise InputError(
            f"the samples of steps {sample.step} and {last.step} have no common network: they are "
            "not of one chain"
        )
    own = layout.with_sizes({name: len(units) for name, units in had.items()})
    kept = {name: torch.searchsorted(had[name], left[name]) for name in had}
    return narrowed(own, sample.parameters, kept, seen_in(network, own, sample.parameters))
