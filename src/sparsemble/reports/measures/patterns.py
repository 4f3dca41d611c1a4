"""Figure 5: pictures of every weight matrix, as the chain left it and as it was pruned.

A picture has sixteen levels, 0 for nothing. Large matrices are drawn in blocks of weights: as
learned a block shows its largest magnitude, as pruned its share of kept weights, and a block with
any kept weight is marked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sparsemble.members import Member
from sparsemble.reports.opening import FinishedRun
from sparsemble.structure import Layout, Role

LEVELS = 16
SIDE = 200
"""Pixels per side at most."""
PICTURED = 24
"""Members drawn at most: a page has its size."""
DECADES = 3
"""A weight this many powers of ten below the largest is drawn as nothing."""


@dataclass(frozen=True)
class Picture:
    """`levels[row, column]`, one pixel for `block` rows and columns of weights."""

    levels: np.ndarray
    block: tuple[int, int]


@dataclass(frozen=True)
class MatrixPictures:
    """One parameter of one member: its sample, if that is there, and what was kept of it.

    It `reads` the units of one space and `makes` those of another.
    """

    name: str
    reads: str
    makes: str
    shape: tuple[int, int]
    rows: str
    columns: str
    tiles: int
    """Equal parts the rows fall into: an LSTM's four gates."""
    learned: Picture | None
    pruned: Picture
    kept: float


def member_pictures(run: FinishedRun) -> tuple[tuple[MatrixPictures, ...], ...]:
    """The matrices of the first members, one tuple per member."""
    drawn = []
    for number in range(min(len(run.ensemble), PICTURED)):
        weights = None
        if run.sample_files:
            weights = run.fitted.dense(run.sample(number)).whole_weights()
        drawn.append(pictures_of(run.ensemble[number], run.layout, weights))
    return tuple(drawn)


def pictures_of(
    member: Member, layout: Layout, weights: dict[str, Tensor] | None
) -> tuple[MatrixPictures, ...]:
    """Every weight matrix of a member; `layout` describes the network before compaction."""
    largest = max((float(w.abs().max()) for w in weights.values()), default=0) if weights else 0
    found = []
    for name, mask in member.pattern().items():
        kept = _flat(mask)
        rows, tiles = _along(layout, name, 0)
        columns, _ = _along(layout, name, 1)
        found.append(
            MatrixPictures(
                name,
                _spaces(layout, name, Role.CONSUMER),
                _spaces(layout, name, Role.PRODUCER),
                (kept.shape[0], kept.shape[1]),
                rows,
                columns,
                tiles,
                magnitudes(_flat(weights[name]), largest) if weights else None,
                kept_shares(kept),
                float(kept.double().mean()),
            )
        )
    return tuple(found)


def magnitudes(weights: Tensor, largest: float) -> Picture:
    """The largest magnitude of every block, on a logarithmic scale below `largest`."""
    block = _block(weights)
    peaks = _blocks(weights.abs(), block).amax((1, 3)).double()
    relative = (peaks / (largest or 1.0)).clamp_min(10.0**-DECADES)
    levels = ((LEVELS - 1) * (1 + relative.log10() / DECADES)).round()
    return Picture(levels.byte().numpy(), block)


def kept_shares(mask: Tensor) -> Picture:
    """The share of kept weights in every block, by its root; level 0 only where none is kept."""
    block = _block(mask)
    counts = _blocks(mask.double(), block).sum((1, 3))
    sizes = _blocks(torch.ones(mask.shape, dtype=torch.float64), block).sum((1, 3))
    levels = (1 + (LEVELS - 2) * (counts / sizes).sqrt()).round()
    return Picture(torch.where(counts > 0, levels, 0.0).byte().numpy(), block)


def input_readers(run: FinishedRun) -> tuple[int, ...] | None:
    """How many members read each input; `None` where inputs are no units that can go."""
    space = run.layout.inputs
    if space is None:
        return None
    counts = torch.zeros(space.size, dtype=torch.long)
    for member in run.ensemble:
        counts[member.origin.units[space.name]] += 1
    return tuple(counts.tolist())


def _flat(tensor: Tensor) -> Tensor:
    """Any weight as a matrix."""
    return tensor.flatten(1) if tensor.ndim > 1 else tensor.view(-1, 1)


def _along(layout: Layout, parameter: str, dim: int) -> tuple[str, int]:
    """Which units a dimension belongs to, and how often they are repeated along it."""
    slots = [slot for slot in layout.slots_on(parameter) if slot.dim == dim]
    names = dict.fromkeys(slot.space for slot in slots)
    return " + ".join(names) or "others", max((slot.tile for slot in slots), default=1)


def _spaces(layout: Layout, parameter: str, role: Role) -> str:
    slots = [slot for slot in layout.slots_on(parameter) if slot.role is role]
    return " + ".join(dict.fromkeys(slot.space for slot in slots)) or "others"


def _block(matrix: Tensor) -> tuple[int, int]:
    rows, columns = matrix.shape
    return math.ceil(rows / SIDE), math.ceil(columns / SIDE)


def _blocks(matrix: Tensor, block: tuple[int, int]) -> Tensor:
    """View as `(block rows, rows of a block, block columns, columns of a block)`, zero-padded."""
    (rows, columns), (high, wide) = matrix.shape, block
    padded = F.pad(matrix, (0, -columns % wide, 0, -rows % high))
    return padded.view(-(-rows // high), high, -(-columns // wide), wide)
