"""Norms and gradients of group families, vectorised over groups.

For a group `g` with weights `θ_g` and original dimension `d_g` the penalty is `√d_g·‖θ_g‖₂` (Eq. 5)
and its gradient `√d_g·θ_g/‖θ_g‖₂` (Eq. 6), 0 where the norm is 0. Norms reduce each tensor over
the other dimensions; the gradient of all families on a tensor is one pass `θ⊙(a_i + b_j)`. Where
two slots of one unit intersect (an LSTM unit's own recurrent weights) the weight counts once.

Tensors may carry leading member dimensions (`batch_dims`), which are kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import torch
from torch import Tensor

from sparsemble.structure.units import Family, Layout, Part, Slot


class GroupTerms:
    """The families of a layout on given tensors: sizes, norms, penalty and its gradient.

    `sizes` overrides the groups' dimensions, for networks from which zero weights were removed.
    All groups share one buffer, family after family, so that what is done to every group is done
    in one call.
    """

    def __init__(
        self,
        layout: Layout,
        tensors: Mapping[str, Tensor],
        *,
        sizes: Mapping[str, int] | None = None,
        batch_dims: int = 0,
    ) -> None:
        self.families = layout.families
        self.sizes = dict(sizes) if sizes is not None else group_sizes(layout, tensors, batch_dims)
        self._batch_dims = batch_dims
        names = dict.fromkeys(s.parameter for family in self.families for s in family.slots)
        self._tensors = {name: tensors[name] for name in names}
        self._units = [layout.space(family.space).size for family in self.families]
        self._overlaps = [_overlapping_pairs(family) for family in self.families]
        sample = next(iter(self._tensors.values()), torch.empty(0))
        self._roots = torch.cat(
            [
                sample.new_full((units,), math.sqrt(self.sizes[family.name]))
                for family, units in zip(self.families, self._units, strict=True)
            ]
            or [sample.new_zeros(0)]
        )
        self._tiny = torch.finfo(sample.dtype).tiny
        self._buffer = sample.new_empty((*sample.shape[:batch_dims], len(self._roots)))
        self._parts = list(self._buffer.split(self._units, dim=-1))
        self._scratch = {name: torch.empty_like(t) for name, t in self._tensors.items()}

    def norms(self) -> list[Tensor]:
        """`‖θ_g‖₂` of every group, one tensor of shape `(*batch, units)` a family."""
        return [squared.sqrt() for squared in self._squared_norms(into_buffer=False)]

    def penalty(self) -> Tensor:
        """`Σ_g √d_g·‖θ_g‖₂` over all families; autograd can differentiate it off zero groups."""
        norms = self.norms()
        return (torch.cat(norms, dim=-1) * self._roots).sum() if norms else torch.zeros(())

    def add_gradient(self, gradients: Mapping[str, Tensor], scale: float) -> None:
        """Add `scale·∇penalty` to `gradients`, in place."""
        self._squared_norms(into_buffer=True)
        # The clamp makes a zero group's factor finite, so that it gives 0·θ = 0.
        self._buffer.clamp_min_(self._tiny).rsqrt_().mul_(self._roots).mul_(scale)
        factors: dict[tuple[str, Part], dict[int, Tensor]] = {}
        for family, units, ratio in zip(self.families, self._units, self._parts, strict=True):
            for slot in family.slots:
                dim = slot.dim + self._batch_dims
                factor = _spread(ratio, slot, units, self._part(self._tensors, slot).shape[dim])
                by_dim = factors.setdefault((slot.parameter, slot.part), {})
                by_dim[dim] = by_dim[dim] + factor if dim in by_dim else factor
        for (name, part), by_dim in factors.items():
            tensor = part.of(self._tensors[name], self._batch_dims)
            aligned = [_align(f, dim, tensor.ndim) for dim, f in by_dim.items()]
            total = aligned[0] if len(aligned) == 1 else sum(aligned[1:], aligned[0])
            part.of(gradients[name], self._batch_dims).addcmul_(tensor, total)
        for pairs, units, ratio in zip(self._overlaps, self._units, self._parts, strict=True):
            for first, second in pairs:
                own = self._shared(self._tensors, first, second, units)
                target = self._shared(gradients, first, second, units)
                shape = (*ratio.shape[:-1], *([1] * (own.ndim - ratio.ndim)), units)
                target.addcmul_(own, ratio.reshape(shape), value=-1)

    def _squared_norms(self, *, into_buffer: bool) -> list[Tensor]:
        """`‖θ_g‖₂²` of every group, a tensor a family; fresh ones, or the parts of the buffer."""
        squares = {
            name: torch.mul(tensor, tensor, out=self._scratch[name] if into_buffer else None)
            for name, tensor in self._tensors.items()
        }
        totals = []
        for family, units, pairs, part in zip(
            self.families, self._units, self._overlaps, self._parts, strict=True
        ):
            first = family.slots[0]
            length = self._part(squares, first).shape[first.dim + self._batch_dims]
            if len(family.slots) == 1 and _is_plain(first, units, length):
                total = self._sum_along(squares, first, part if into_buffer else None)
            else:
                sums = [_per_unit(self._sum_along(squares, s), s, units) for s in family.slots]
                total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)
                for pair in pairs:
                    shared = self._shared(squares, *pair, units)
                    # A difference of sums: rounding may leave a tiny negative number.
                    total = (total - shared.flatten(self._batch_dims, -2).sum(-2)).clamp_min(0)
                if into_buffer:
                    part.copy_(total)
            totals.append(total)
        return totals

    def _sum_along(
        self, squares: Mapping[str, Tensor], slot: Slot, out: Tensor | None = None
    ) -> Tensor:
        """Squares of a slot's parameter summed over all but its dimension (and the members)."""
        square, kept = self._part(squares, slot), slot.dim + self._batch_dims
        others = [dim for dim in range(self._batch_dims, square.ndim) if dim != kept]
        if others:
            return torch.sum(square, others, out=out)
        return square if out is None else out.copy_(square)

    def _part(self, tensors: Mapping[str, Tensor], slot: Slot) -> Tensor:
        return slot.part.of(tensors[slot.parameter], self._batch_dims)

    def _shared(
        self, tensors: Mapping[str, Tensor], first: Slot, second: Slot, units: int
    ) -> Tensor:
        return _shared_view(self._part(tensors, first), first, second, units, self._batch_dims)


def group_sizes(
    layout: Layout, tensors: Mapping[str, Tensor], batch_dims: int = 0
) -> dict[str, int]:
    """Number of weights in a group, the same for all groups of a family."""
    sizes = {}
    for family in layout.families:
        count = sum(_slice_size(tensors[s.parameter], s, batch_dims) for s in family.slots)
        for first, second in _overlapping_pairs(family):
            per_unit = _slice_size(tensors[first.parameter], first, batch_dims)
            part = first.part.of(tensors[first.parameter], batch_dims)
            length = part.shape[second.dim + batch_dims]
            count -= per_unit // length * second.tile * second.block
        sizes[family.name] = count
    return sizes


def _is_plain(slot: Slot, units: int, length: int) -> bool:
    """Does position `u` of the slot's dimension belong to unit `u`, for all of it?"""
    return slot.tile == slot.block == 1 and units == length


def _per_unit(sums: Tensor, slot: Slot, units: int) -> Tensor:
    """Add up what a slot's dimension holds for each unit."""
    if _is_plain(slot, units, sums.shape[-1]):
        return sums
    covered = sums.narrow(-1, slot.offset, slot.extent(units))
    by_unit: Tensor = covered.unflatten(-1, (slot.tile, units, slot.block))
    return by_unit.sum((-3, -1))


def _overlapping_pairs(family: Family) -> list[tuple[Slot, Slot]]:
    return [
        (first, second)
        for first, second in combinations(family.slots, 2)
        if (first.parameter, first.part) == (second.parameter, second.part)
        and first.dim != second.dim
    ]


def _slice_size(tensor: Tensor, slot: Slot, batch_dims: int) -> int:
    shape = slot.part.of(tensor, batch_dims).shape[batch_dims:]
    return shape.numel() // shape[slot.dim] * slot.tile * slot.block


def _spread(per_unit: Tensor, slot: Slot, units: int, length: int) -> Tensor:
    """Repeat per-unit values over a slot's dimension of `length`, 0 where it is not covered."""
    if _is_plain(slot, units, length):
        return per_unit
    batch = per_unit.shape[:-1]
    spread = per_unit.new_zeros((*batch, length))
    covered = spread.narrow(-1, slot.offset, slot.extent(units))
    covered.unflatten(-1, (slot.tile, units, slot.block)).copy_(per_unit[..., None, :, None])
    return spread


def _align(factor: Tensor, dim: int, ndim: int) -> Tensor:
    """View `(*batch, length)` so that its last dimension stands at `dim` of `ndim` dimensions."""
    batch = factor.ndim - 1
    return factor.view(*factor.shape[:-1], *[1] * (dim - batch), -1, *[1] * (ndim - dim - 1))


def _shared_view(tensor: Tensor, first: Slot, second: Slot, units: int, batch_dims: int) -> Tensor:
    """View of the weights that both slots give to the same unit, units last."""
    low, high = sorted((first, second), key=lambda slot: slot.dim)
    high_dim, low_dim = high.dim + batch_dims, low.dim + batch_dims
    view: Tensor = tensor.narrow(high_dim, high.offset, high.extent(units))
    view = view.unflatten(high_dim, (high.tile, units, high.block))
    view = view.narrow(low_dim, low.offset, low.extent(units))
    view = view.unflatten(low_dim, (low.tile, units, low.block))
    return view.diagonal(dim1=low_dim + 1, dim2=high_dim + 3)
