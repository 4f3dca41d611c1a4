"""Norms and gradients of group families, vectorised over groups.

For a group `g` with weights `θ_g` and original dimension `d_g` the penalty is `√d_g·‖θ_g‖₂` (Eq. 5)
and its gradient `√d_g·θ_g/‖θ_g‖₂` (Eq. 6), 0 where the norm is 0. Norms reduce each tensor over
the other dimensions; the gradient of all families on a tensor is one pass `θ⊙(a_i + b_j)`. Where
two slots of one unit intersect (an LSTM unit's own recurrent weights) the weight counts once.

Tensors may carry leading member dimensions (`batch_dims`), which are kept apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

import torch
from torch import Tensor

from sparsemble.structure.units import Family, Layout, Slot


class GroupTerms:
    """The families of a layout on given tensors: sizes, norms, penalty and its gradient.

    `sizes` overrides the groups' dimensions, for networks from which zero weights were removed.
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
        self.tensors = {
            name: tensors[name]
            for name in dict.fromkeys(s.parameter for f in self.families for s in f.slots)
        }
        self.batch_dims = batch_dims
        self._units = {space.name: space.size for space in layout.spaces}
        self._overlaps = {family.name: _overlapping_pairs(family) for family in self.families}
        self.sizes = dict(sizes) if sizes is not None else group_sizes(layout, tensors, batch_dims)
        self._roots = [math.sqrt(self.sizes[family.name]) for family in self.families]

    def norms(self) -> list[Tensor]:
        """`‖θ_g‖₂` of every group, one tensor of shape `(*batch, units)` a family."""
        reduced = _Reduced(self.tensors, self.batch_dims)
        norms = []
        for family in self.families:
            units = self._units[family.space]
            parts = [reduced.along(slot, units) for slot in family.slots]
            total = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
            for first, second in self._overlaps[family.name]:
                shared = reduced.square(first.parameter)
                shared = _shared_view(shared, first, second, units, self.batch_dims)
                # A difference of sums: rounding may leave a tiny negative number.
                total = (total - shared.flatten(self.batch_dims, -2).sum(-2)).clamp_min(0)
            norms.append(total.sqrt())
        return norms

    def penalty(self) -> Tensor:
        """`Σ_g √d_g·‖θ_g‖₂` over all families."""
        terms = [(n * r).sum() for n, r in zip(self.norms(), self._roots, strict=True)]
        return torch.stack(terms).sum() if terms else torch.zeros(())

    def add_gradient(self, gradients: Mapping[str, Tensor], scale: float) -> None:
        """Add `scale·∇penalty` to `gradients`, in place."""
        factors: dict[str, dict[int, Tensor]] = defaultdict(dict)
        corrections = []
        for family, norm, root in zip(self.families, self.norms(), self._roots, strict=True):
            ratio = torch.where(norm > 0, scale * root / norm, 0.0)
            units = self._units[family.space]
            for slot in family.slots:
                dim = slot.dim + self.batch_dims
                length = self.tensors[slot.parameter].shape[dim]
                factor = _spread(ratio, slot, units, length)
                known = factors[slot.parameter].get(dim)
                factors[slot.parameter][dim] = factor if known is None else known + factor
            corrections += [(pair, ratio, units) for pair in self._overlaps[family.name]]
        for name, by_dim in factors.items():
            tensor = self.tensors[name]
            aligned = [_align(f, dim, tensor.ndim) for dim, f in by_dim.items()]
            total = aligned[0] if len(aligned) == 1 else sum(aligned[1:], aligned[0])
            gradients[name].addcmul_(tensor, total)
        for (first, second), ratio, units in corrections:
            tensor, gradient = self.tensors[first.parameter], gradients[first.parameter]
            own = _shared_view(tensor, first, second, units, self.batch_dims)
            shape = (*ratio.shape[:-1], *([1] * (own.ndim - ratio.ndim)), ratio.shape[-1])
            target = _shared_view(gradient, first, second, units, self.batch_dims)
            target.addcmul_(own, ratio.view(shape), value=-1)


def group_sizes(
    layout: Layout, tensors: Mapping[str, Tensor], batch_dims: int = 0
) -> dict[str, int]:
    """Number of weights in a group, the same for all groups of a family."""
    sizes = {}
    for family in layout.families:
        count = sum(_slice_size(tensors[s.parameter], s, batch_dims) for s in family.slots)
        for first, second in _overlapping_pairs(family):
            per_unit = _slice_size(tensors[first.parameter], first, batch_dims)
            length = tensors[first.parameter].shape[second.dim + batch_dims]
            count -= per_unit // length * second.tile * second.block
        sizes[family.name] = count
    return sizes


class _Reduced:
    """Squares of tensors summed over all but one dimension, each computed once."""

    def __init__(self, tensors: Mapping[str, Tensor], batch_dims: int) -> None:
        self._tensors = tensors
        self._batch_dims = batch_dims
        self._squares: dict[str, Tensor] = {}
        self._sums: dict[tuple[str, int], Tensor] = {}

    def square(self, name: str) -> Tensor:
        if name not in self._squares:
            self._squares[name] = self._tensors[name].square()
        return self._squares[name]

    def along(self, slot: Slot, units: int) -> Tensor:
        key = (slot.parameter, slot.dim)
        if key not in self._sums:
            square = self.square(slot.parameter)
            others = list(range(self._batch_dims, square.ndim))
            others.remove(slot.dim + self._batch_dims)
            self._sums[key] = square.sum(others) if others else square
        sums = self._sums[key]
        if slot.extent(units) == sums.shape[-1] and slot.tile == slot.block == 1:
            return sums
        covered = sums.narrow(-1, slot.offset, slot.extent(units))
        by_unit: Tensor = covered.unflatten(-1, (slot.tile, units, slot.block))
        return by_unit.sum((-3, -1))


def _overlapping_pairs(family: Family) -> list[tuple[Slot, Slot]]:
    return [
        (first, second)
        for first, second in combinations(family.slots, 2)
        if first.parameter == second.parameter and first.dim != second.dim
    ]


def _slice_size(tensor: Tensor, slot: Slot, batch_dims: int) -> int:
    shape: Sequence[int] = tensor.shape[batch_dims:]
    return tensor[(0,) * batch_dims].numel() // shape[slot.dim] * slot.tile * slot.block


def _spread(per_unit: Tensor, slot: Slot, units: int, length: int) -> Tensor:
    """Repeat per-unit values over a slot's dimension of `length`, 0 where it is not covered."""
    if slot.extent(units) == length and slot.tile == slot.block == 1:
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
