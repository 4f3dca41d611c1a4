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

from sparsemble.structure.layout import Layout
from sparsemble.structure.units import Family, Part, Slot


class GroupTerms:
    """The families of a layout on given tensors: sizes, norms, penalty and its gradient.

    `sizes` overrides the groups' dimensions, for networks from which zero weights were removed.
    The tensors may change in place. All groups share one buffer, family after family, so that what
    is done to every group is done in one call; views into it are made once.
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
        names = dict.fromkeys(s.parameter for family in self.families for s in family.slots)
        self._tensors = {name: tensors[name] for name in names}
        units = [layout.space(family.space).size for family in self.families]
        sample = next(iter(self._tensors.values()), torch.empty(0))
        roots = [
            sample.new_full((count,), math.sqrt(self.sizes[family.name]))
            for family, count in zip(self.families, units, strict=True)
        ]
        self._roots = torch.cat(roots) if roots else sample.new_zeros(0)
        self._tiny = torch.finfo(sample.dtype).tiny
        self._buffer = sample.new_empty((*sample.shape[:batch_dims], len(self._roots)))
        self._parts = self._buffer.split(units, dim=-1)
        self._squares = {name: torch.empty_like(t) for name, t in self._tensors.items()}
        self._sums = [
            _SquareSum(family, count, self._tensors, batch_dims)
            for family, count in zip(self.families, units, strict=True)
        ]
        self._factors: dict[tuple[str, Part], _Factor] = {}
        for family, ratios in zip(self.families, self._parts, strict=True):
            for slot in family.slots:
                tensor = slot.part.of(self._tensors[slot.parameter].detach(), batch_dims)
                factor = self._factors.setdefault(
                    (slot.parameter, slot.part), _Factor(tensor, batch_dims)
                )
                factor.add(slot, ratios)
        self._batch_dims = batch_dims

    def norms(self) -> list[Tensor]:
        """`‖θ_g‖₂` of every group, one tensor of shape `(*batch, units)` per family."""
        squares = {name: tensor * tensor for name, tensor in self._tensors.items()}
        return [total(squares).sqrt() for total in self._sums]

    def penalty(self) -> Tensor:
        """`Σ_g √d_g·‖θ_g‖₂` over all families; autograd can differentiate it off zero groups."""
        norms = self.norms()
        return (torch.cat(norms, dim=-1) * self._roots).sum() if norms else torch.zeros(())

    def add_gradient(self, gradients: Mapping[str, Tensor], scale: float) -> None:
        """Add `scale·∇penalty` to `gradients`, in place."""
        self._find_ratios()
        for (name, part), factor in self._factors.items():
            target = part.of(gradients[name], self._batch_dims)
            target.addcmul_(factor.tensor, factor.value(), value=scale)
        for total, ratios in zip(self._sums, self._parts, strict=True):
            for pair in total.overlaps:
                own = total.shared(self._tensors, pair)
                shape = (*ratios.shape[:-1], *([1] * (own.ndim - ratios.ndim)), ratios.shape[-1])
                target = total.shared(gradients, pair)
                target.addcmul_(own, ratios.reshape(shape), value=-scale)

    def shrink(self, amount: float) -> None:
        """Multiply every group by `max(0, 1 − amount·√d_g/‖θ_g‖₂)`, in place.

        That is the proximal map of `amount·penalty` where groups do not overlap. A weight in
        several groups is multiplied by each one's factor, which is the map to first order in
        `amount`, and 0 if any of them is.
        """
        self._find_ratios()
        for factor in self._factors.values():
            factor.shrink(amount)
        for total, ratios in zip(self._sums, self._parts, strict=True):
            for pair in total.overlaps:
                own = total.shared(self._tensors, pair)
                shape = (*ratios.shape[:-1], *([1] * (own.ndim - ratios.ndim)), ratios.shape[-1])
                # Both slots have shrunk it: once is taken back.
                own.div_(_shrinkage(ratios, amount).clamp_min_(self._tiny).reshape(shape))

    def _find_ratios(self) -> None:
        """`√d_g/‖θ_g‖₂` of every group into the shared buffer."""
        for name, tensor in self._tensors.items():
            torch.mul(tensor, tensor, out=self._squares[name])
        for total, part in zip(self._sums, self._parts, strict=True):
            total.into(part, self._squares)
        # The clamp makes a zero group's ratio finite, so that it gives 0·θ = 0.
        self._buffer.clamp_min_(self._tiny).rsqrt_().mul_(self._roots)


class _SquareSum:
    """Adds up the squares of a family's weights, group by group."""

    def __init__(
        self, family: Family, units: int, tensors: Mapping[str, Tensor], batch_dims: int
    ) -> None:
        self.overlaps = _overlapping_pairs(family)
        self._slots = family.slots
        self._units = units
        self._batch_dims = batch_dims
        parts = [slot.part.of(tensors[slot.parameter], batch_dims) for slot in family.slots]
        self._others = [
            [dim for dim in range(batch_dims, part.ndim) if dim != slot.dim + batch_dims]
            for slot, part in zip(family.slots, parts, strict=True)
        ]
        first = family.slots[0]
        length = parts[0].shape[first.dim + batch_dims]
        self._direct = (
            len(family.slots) == 1 and bool(self._others[0]) and _is_plain(first, units, length)
        )

    def __call__(self, squares: Mapping[str, Tensor]) -> Tensor:
        """The sums, of shape `(*batch, units)`."""
        sums = []
        for slot, others in zip(self._slots, self._others, strict=True):
            square = slot.part.of(squares[slot.parameter], self._batch_dims)
            sums.append(_per_unit(square.sum(others) if others else square, slot, self._units))
        total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(0)
        for pair in self.overlaps:
            own = self.shared(squares, pair).flatten(self._batch_dims, -2).sum(-2)
            # A difference of sums: rounding may leave a tiny negative number.
            total = (total - own).clamp_min(0)
        return total

    def into(self, out: Tensor, squares: Mapping[str, Tensor]) -> None:
        """Write the sums to `out`."""
        if self._direct:
            slot = self._slots[0]
            square = slot.part.of(squares[slot.parameter], self._batch_dims)
            torch.sum(square, self._others[0], out=out)
        else:
            out.copy_(self(squares))

    def shared(self, tensors: Mapping[str, Tensor], pair: tuple[Slot, Slot]) -> Tensor:
        """View of the weights that both slots give to the same unit, units last."""
        first, second = pair
        tensor = first.part.of(tensors[first.parameter], self._batch_dims)
        return _shared_view(tensor, first, second, self._units, self._batch_dims)


class _Factor:
    """What multiplies a tensor in the gradient: the ratios of all families on it, laid along it."""

    def __init__(self, tensor: Tensor, batch_dims: int) -> None:
        self.tensor = tensor
        self._batch_dims = batch_dims
        self._by_dim: dict[int, list[Tensor]] = {}
        self._copies: list[tuple[Tensor, Tensor]] = []

    def add(self, slot: Slot, ratios: Tensor) -> None:
        """Let a slot's units multiply its dimension by `ratios`, as they will be at the time."""
        dim, units = slot.dim + self._batch_dims, ratios.shape[-1]
        length = self.tensor.shape[dim]
        along = ratios
        if not _is_plain(slot, units, length):
            along = ratios.new_zeros((*ratios.shape[:-1], length))
            covered = along.narrow(-1, slot.offset, slot.extent(units))
            tiled = covered.unflatten(-1, (slot.tile, units, slot.block))
            self._copies.append((tiled, ratios[..., None, :, None]))
        self._by_dim.setdefault(dim, []).append(_align(along, dim, self.tensor.ndim))

    def value(self) -> Tensor:
        """The factors, in a shape that broadcasts to the tensor's."""
        self._lay_out()
        return _added([_added(along) for along in self._by_dim.values()])

    def shrink(self, amount: float) -> None:
        """Multiply the tensor by what every family on it leaves, in place."""
        self._lay_out()
        for ratios in self._by_dim.values():
            for along in ratios:
                self.tensor.mul_(_shrinkage(along, amount))

    def _lay_out(self) -> None:
        for tiled, ratios in self._copies:
            tiled.copy_(ratios)


def _shrinkage(ratios: Tensor, amount: float) -> Tensor:
    """What is left of groups of these `√d_g/‖θ_g‖₂`; of weights in no group (0) everything."""
    return (1 - amount * ratios).clamp_min_(0)


def _added(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else sum(tensors[1:], tensors[0])


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
