"""What has a shape without some units, and what has not.

A unit must be whole slices along one dimension of every tensor it stands in: otherwise what is left
of that tensor is ragged, and the unit stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from sparsemble.structure import Role
from sparsemble.tracing.atoms import NONE, collapsed, thin
from sparsemble.tracing.naming import place
from sparsemble.tracing.uses import Need
from sparsemble.tracing.values import Value
from sparsemble.tracing.walk import Walk


def settle(walk: Walk) -> None:
    """Say what can only be said when all is known.

    Whether an operand is broadcast over one unit or several, which dimension of parameters used
    like data runs along units, which operations need all units, and which units would leave rags.
    """
    _unite_meetings(walk)
    _settle_elements(walk)
    _pin_needed(walk, walk.needs)
    _pin_needed(walk, _pin_wide(walk))
    while _pin_ragged(walk):
        pass


def values_of(walk: Walk) -> Iterator[tuple[int, Value]]:
    """The tensors that the run computed, numbered."""
    number = 0
    for value in walk.values.values():
        for own in value if isinstance(value, list) else [value]:
            if isinstance(own, Value) and own.source is None:
                yield number, own
                number += 1


def owners(roots: Tensor, dim: int) -> Tensor:
    """The unit that each position along a dimension belongs to, wholly; `NONE` if to none."""
    if not roots.numel() or (roots.stride(dim) == 0 and roots.shape[dim] > 1):
        return torch.full((roots.shape[dim],), NONE)
    others = [other for other in range(roots.ndim) if other != dim]
    if not others:
        return roots
    low, high = roots.amin(others), roots.amax(others)
    return torch.where(low == high, low, NONE)


def _unite_meetings(walk: Walk) -> None:
    """What is broadcast over a single unit belongs to it."""
    atoms = walk.atoms
    for _ in walk.meetings:  # one may make the units of another a single one
        before = atoms.unions
        for own in walk.meetings:
            wide = atoms.is_wide(own.labels, own.units)
            atoms.unite(torch.where(wide, NONE, own.labels), own.units)
        if atoms.unions == before:
            break


def _pin_wide(walk: Walk) -> list[Need]:
    """What is broadcast over several units stays; so do those along which it extends."""
    needs = []
    for own in walk.meetings:
        wide = walk.atoms.is_wide(own.labels, own.units)
        if bool(wide.any()):
            walk.atoms.pin(torch.where(wide, own.labels, NONE), own.reason)
            needs.append(Need(torch.where(wide, own.units, NONE), own.dims, own.reason))
    return needs


def _pin_needed(walk: Walk, needs: Iterable[Need]) -> None:
    for need in needs:
        if any(walk.atoms.differ_along(need.labels, (dim,)) for dim in need.dims):
            walk.atoms.pin(need.labels, need.reason)


def _settle_elements(walk: Walk) -> None:
    """Parameters used like data: the dimension along which their units run goes with them."""
    for name, atoms in walk.elements().items():
        shape = walk.tensors[name].shape
        roots = thin(walk.atoms.roots(atoms).view(shape))
        along = None
        for dim, length in enumerate(shape):
            own = owners(roots, dim)
            if length > 1 and bool((own != NONE).all()):
                along = dim
                walk.atoms.unite(walk.atom(name, dim), own)
                walk.note(name, dim, Role.FOLLOWER)
        if along is None:
            walk.atoms.pin(atoms, f"no dimension of {name} runs along the units")


def _pin_ragged(walk: Walk) -> bool:
    """Pin the units of ragged tensors; were there any?"""
    pinned = walk.atoms.reasons()
    found = False
    for _, value in values_of(walk):
        if value.number.ndim < 2 or not value.number.numel() or value.node.op == "placeholder":
            continue
        ragged = [r for r in _ragged(thin(walk.atoms.roots(value.labels))) if r not in pinned]
        if ragged:
            reason = f"without single units {place(value.node)} would be ragged"
            walk.atoms.pin(torch.tensor(ragged), reason)
            pinned = walk.atoms.reasons()
            found = True
    return found


def _ragged(roots: Tensor) -> list[int]:
    """Units whose elements are not whole slices along one dimension."""
    small = collapsed(roots)[0]
    units, numbered = small.unique(return_inverse=True)
    counts = numbered.flatten().bincount(minlength=len(units))
    whole = units == NONE
    for dim, length in enumerate(small.shape):
        own = owners(numbered, dim)
        slices = own[own != NONE].bincount(minlength=len(units))
        whole |= slices * (small.numel() // length) == counts
    return [int(unit) for unit in units[~whole]]
