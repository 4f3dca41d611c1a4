"""Atoms: which positions of which tensors go together.

Every position along every dimension of a parameter or buffer is an *atom*, and so is every input
feature. What a traced run computes carries *labels*, a tensor of its own shape that names the atom
each element belongs to. Operations unite atoms; a *unit* is a class of united atoms. Labels are
kept with stride 0 along every dimension on which they do not depend, so that a picture's or a
batch's extent costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

NONE = -1
"""The label of an element that belongs to no atom."""


class Atoms:
    """All atoms, united so far, and what is known of them."""

    def __init__(self) -> None:
        self.unions = 0
        self._parents: list[int] = []
        self._loose: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._fed: set[int] = set()
        self._summed: set[int] = set()

    def fresh(self, count: int, *, loose: bool = False) -> Tensor:
        """New atoms; `loose` ones belong to nothing yet, and join the first unit they meet."""
        start = len(self._parents)
        self._parents.extend(range(start, start + count))
        if loose:
            self._loose.update(range(start, start + count))
        return torch.arange(start, start + count)

    def root(self, atom: int) -> int:
        """The atom that stands for the class of `atom`."""
        parents = self._parents
        while parents[atom] != atom:
            parents[atom] = parents[parents[atom]]
            atom = parents[atom]
        return atom

    def roots(self, labels: Tensor) -> Tensor:
        """The labels with every atom replaced by what stands for its class."""
        small = collapsed(labels)[0]
        found, inverse = small.unique(return_inverse=True)
        own = torch.tensor([a if a == NONE else self.root(a) for a in found.tolist()])
        return own.long()[inverse].view(small.shape).expand(labels.shape)

    def unite(self, first: Tensor, second: Tensor) -> None:
        """Unite two label tensors position by position, as they broadcast."""
        for a, b in _pairs(first, second):
            self._join(a, b)

    def _join(self, first: int, second: int) -> None:
        first, second = self.root(first), self.root(second)
        if first == second:
            return
        if first in self._loose:
            first, second = second, first
        self._parents[second] = first
        self.unions += 1
        if first in self._loose and second not in self._loose:
            self._loose.discard(first)

    def along(self, labels: Tensor, dims: Sequence[int]) -> Tensor:
        """Unite over `dims`; the labels that then stand there, of length 1 along them."""
        dims = tuple(dim % labels.ndim for dim in dims)
        if not dims or not labels.numel():
            return labels
        small = collapsed(labels)[0]
        highest = small.amax(dims, keepdim=True)
        self.unite(small, highest)
        shape = [1 if dim in dims else length for dim, length in enumerate(labels.shape)]
        return highest.expand(shape)

    def differ_along(self, labels: Tensor, dims: Sequence[int]) -> bool:
        """Do units change along `dims`?"""
        if not labels.numel():
            return False
        roots = collapsed(self.roots(labels))[0]
        return bool((roots.amax(tuple(dims)) != roots.amin(tuple(dims))).any())

    def is_loose(self, labels: Tensor) -> Tensor:
        """Which elements belong to nothing yet, though to an atom."""
        small = collapsed(labels)[0]
        found, inverse = small.unique(return_inverse=True)
        own = [a != NONE and self.root(a) in self._loose for a in found.tolist()]
        return torch.tensor(own, dtype=torch.bool)[inverse].view(small.shape).expand(labels.shape)

    def is_wide(self, labels: Tensor, units: Tensor) -> Tensor:
        """Which elements belong to an atom that meets several units."""
        mine, roots = collapsed(thin(labels), thin(self.roots(thin(units))))
        both = (mine != NONE) & (roots != NONE)
        pairs = torch.stack([mine[both], roots[both]], 1).unique(dim=0)
        atoms, counts = pairs[:, 0].unique(return_counts=True)
        return torch.isin(mine, atoms[counts > 1]).expand(labels.shape)

    def pin(self, labels: Tensor, reason: str) -> None:
        """These units stay, for a reason."""
        for atom in present(labels):
            self._reasons.setdefault(atom, reason)

    def feed(self, labels: Tensor) -> None:
        """These units get values from elsewhere than the weights that make them."""
        self._fed.update(present(labels))

    def sum_up(self, labels: Tensor) -> None:
        """These units are added up over positions: what they emit depends on how many."""
        self._summed.update(present(labels))

    def reasons(self) -> dict[int, str]:
        """Why units stay, by the root of their atoms."""
        found: dict[int, str] = {}
        for atom, reason in self._reasons.items():
            found.setdefault(self.root(atom), reason)
        return found

    def fed(self) -> set[int]:
        """Roots of the units that `feed` named."""
        return {self.root(atom) for atom in self._fed}

    def summed(self) -> set[int]:
        """Roots of the units that `sum_up` named."""
        return {self.root(atom) for atom in self._summed}


def thin(labels: Tensor) -> Tensor:
    """The same labels, with stride 0 along every dimension on which they do not depend."""
    shape = labels.shape
    if not labels.numel():
        return labels
    for dim, length in enumerate(shape):
        if length > 1:
            first = labels.narrow(dim, 0, 1)
            if labels.stride(dim) == 0 or bool((labels == first).all()):
                labels = first
    return labels.expand(shape)


def collapsed(*tensors: Tensor) -> list[Tensor]:
    """Tensors of one shape without the extent on which none of them depends."""
    result = list(tensors)
    for dim, length in enumerate(tensors[0].shape):
        if length > 1 and all(t.stride(dim) == 0 or t.shape[dim] == 1 for t in tensors):
            result = [tensor.narrow(dim, 0, 1) for tensor in result]
    return result


def present(labels: Tensor) -> list[int]:
    """The atoms in some labels."""
    return [atom for atom in collapsed(labels)[0].unique().tolist() if atom != NONE]


def unlabelled(shape: Sequence[int]) -> Tensor:
    """Labels of what belongs to no atom."""
    return torch.full((), NONE).expand(list(shape))


def _pairs(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    """The different pairs of atoms that meet."""
    first, second = collapsed(*torch.broadcast_tensors(first, second))
    meet = (first != NONE) & (second != NONE) & (first != second)
    first, second = first[meet], second[meet]
    count = int(second.max()) + 1 if len(second) else 1
    keys = (first * count + second).unique()
    return list(zip((keys // count).tolist(), (keys % count).tolist(), strict=True))
