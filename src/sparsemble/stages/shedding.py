"""Shedding: units that the prior holds at zero leave a chain while it runs.

A group sparse prior takes units to zero long before a chain ends, and every further step computes
them for nothing. So the groups at zero are counted at the end of every epoch. Those that have been
there for long enough are taken for zero, and the units that no output depends on then are cut out
of everything the chain holds: parameters, the sampler's buffers, the mean of the window. Outputs
are those of the network with these groups at zero, groups keep their original √dim, and every step
from there on costs less. (A state that a recurrent network carries ends with the epoch, so there is
none to cut.)

What is gone does not come back, but for a chain that diverges: it returns to a state from before,
with the units of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.members import Member, seen_in, tensors_of, with_units
from sparsemble.stages.chain_state import ChainIdentity, ChainState
from sparsemble.stages.history import Shed
from sparsemble.stages.subject import Subject
from sparsemble.structure import Layout, cut, narrowed, survivors
from sparsemble.structure.readings import Seen


class Shedding:
    """The network of a chain as it gets smaller.

    Args:
        whole: The network before anything has gone.
        subject: Makes what a chain moves of a smaller one.
        after: Epochs in a row that a group is at zero before it counts as gone.
    """

    def __init__(self, whole: Member, subject: Callable[[Member], Subject], after: int) -> None:
        self.member = whole
        """The network that the chain moves now."""
        self._whole = whole
        self._subject = subject
        self._after = after
        self._counts = {
            family.name: torch.zeros(whole.layout.space(family.space).size, dtype=torch.long)
            for family in whole.layout.families
        }

    def count(self, idle: Mapping[str, Tensor]) -> None:
        """An epoch has ended with these groups of every family at zero."""
        for name, own in idle.items():
            self._counts[name] = (self._counts[name] + 1) * own.cpu()

    @property
    def is_due(self) -> bool:
        """Has any group been at zero for just long enough? Those before it were looked at then."""
        return any(bool((count == self._after).any()) for count in self._counts.values())

    def smaller(self, state: ChainState, moved: Sequence[str]) -> ChainState | None:
        """The chain's state without the units that can go; `None` if none can.

        `moved` names the parameters in the order of the sampler's buffers.
        """
        layout, parameters = self.member.layout, state.part("parameter")
        ripe = {name: count >= self._after for name, count in self._counts.items()}
        emptied = _emptied(layout, parameters, ripe)
        seen = self._seen(emptied)
        kept = _kept(layout, _there(layout, parameters, ripe), seen)
        if all(len(kept[space.name]) == space.size for space in layout.spaces):
            return None
        buffers = {
            key: _cut_buffer(key, buffer, moved, parameters, layout, kept)
            for key, buffer in state.part("sampler").items()
        }
        units = {name: self.member.origin.units[name][kept[name]] for name in kept}
        counts = {f.name: self._counts[f.name][kept[f.space]] for f in layout.families}
        parts = {
            "parameter": narrowed(layout, emptied, kept, seen),
            "sampler": buffers,
            "noise": state.part("noise"),
            "mean": self._cut_mean(state.part("mean"), parameters, ripe, kept),
            "shedding": _tensors(units, counts),
        }
        tensors = [_named(part, own) for part, own in parts.items()]
        return ChainState({k: t for own in tensors for k, t in own.items()}, state.numbers)

    def _seen(self, tensors: Mapping[str, Tensor]) -> Seen | None:
        """What products read with these tensors, where that can be seen."""
        plain = {name: tensor.cpu() for name, tensor in tensors.items()}
        return seen_in(self.member.network, self.member.layout, plain)

    def _cut_mean(
        self,
        means: Mapping[str, Tensor],
        parameters: Mapping[str, Tensor],
        ripe: Mapping[str, Tensor],
        kept: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """The mean of a window, whose tensors go by number, without the units that are not kept."""
        if not means:
            return {}
        names, layout = list(parameters), self.member.layout
        whole = {**parameters, **{names[int(n)]: mean for n, mean in means.items()}}
        seen = self._seen(_emptied(layout, whole, ripe))
        smaller = narrowed(layout, whole, kept, seen)
        return {number: smaller[names[int(number)]] for number in means}

    def state(self) -> dict[str, Tensor]:
        """The units there are, and for how long groups have been at zero."""
        return _tensors(self.member.origin.units, self._counts)

    def restore(self, tensors: Mapping[str, Tensor]) -> Subject | None:
        """Go on from `state()`; what the chain then moves, if that is another network."""
        before, layout = self.member.origin.units, self._whole.layout
        units = {space.name: tensors[f"units/{space.name}"] for space in layout.spaces}
        counts = {family.name: tensors[f"zero/{family.name}"] for family in layout.families}
        for family in layout.families:
            if counts[family.name].shape != units[family.space].shape:
                raise ValueError(f"{family.name} has other groups than units")
        self._counts = {name: count.clone() for name, count in counts.items()}
        if all(torch.equal(units[name], before[name]) for name in units):
            return None
        network = self._whole.network
        parameters = {
            name: cut(tensor.detach(), name, layout, units)
            for name, tensor in tensors_of(network).items()
        }
        self.member = with_units(network, layout, parameters, units)
        self.member.to(next(network.parameters()).device)
        return self._subject(self.member)

    def record(self, before: Member, identity: ChainIdentity, step: int, epoch: int) -> Shed:
        """What has gone since the chain moved `before`."""
        left = self.member.layout.sizes
        return Shed(
            identity.stage,
            identity.number,
            step,
            epoch,
            gone={name: size - left[name] for name, size in before.layout.sizes.items()},
            left=left,
            of=dict(self._whole.origin.sizes),
            flops=self.member.cost.flops / max(self._whole.cost.flops, 1),
        )

    def share_of_all(self, near_zero: float) -> float:
        """A share of the groups that are left, with those that have gone counted in."""
        left, whole = (
            sum(layout.space(family.space).size for family in layout.families)
            for layout in (self.member.layout, self._whole.layout)
        )
        return 1 - (1 - near_zero) * left / whole if whole else near_zero


def _there(
    layout: Layout, parameters: Mapping[str, Tensor], ripe: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The parameters, where a weight is 0 only if one of its groups has been so for long enough:
    a proximal step takes groups to zero that come back with the next gradient."""
    weights = {name: torch.ones_like(parameters[name]) for name in layout.weights}
    staying = _emptied(layout, {**parameters, **weights}, ripe)
    whole = {
        name: staying[name] * parameters[name].masked_fill(parameters[name] == 0, 1)
        for name in layout.weights
    }
    return {**staying, **whole}


def _kept(layout: Layout, parameters: Mapping[str, Tensor], seen: Seen | None) -> dict[str, Tensor]:
    """The units that outputs depend on, and all of a space of which that is none: it would only be
    left for its shape, and pruning sees to it."""
    plain = {name: tensor.cpu() for name, tensor in parameters.items()}
    staying = survivors(layout, plain, seen)
    whole = {name: torch.arange(layout.space(name).size) for name in staying.dead}
    return staying.kept | whole


def _cut_buffer(
    key: str,
    buffer: Tensor,
    moved: Sequence[str],
    parameters: Mapping[str, Tensor],
    layout: Layout,
    kept: Mapping[str, Tensor],
) -> Tensor:
    """What a sampler keeps for a parameter: numbers of its shape, or one number."""
    number, _, what = key.partition("/")
    name = moved[int(number)]
    if buffer.shape == parameters[name].shape:
        return cut(buffer, name, layout, kept)
    if buffer.numel() > 1:
        raise InputError(
            f"the sampler keeps {what!r} of shape {tuple(buffer.shape)} for {name!r}: a chain can "
            "only shed if buffers have their parameter's shape; leave chain.shed_after out"
        )
    return buffer


def _emptied(
    layout: Layout, parameters: Mapping[str, Tensor], groups: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Copies of the parameters with some groups of each family at zero."""
    emptied = {name: tensor.clone() for name, tensor in parameters.items()}
    for family in layout.families:
        for slot in family.slots:
            owned = slot.indices(layout.space(slot.space).size)[groups[family.name]].flatten()
            own = slot.part.of(emptied[slot.parameter])
            own.index_fill_(slot.dim, owned.to(own.device), 0)
    return emptied


def _tensors(units: Mapping[str, Tensor], counts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return _named("units", units) | _named("zero", counts)


def _named(part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{part}/{name}": tensor for name, tensor in tensors.items()}
