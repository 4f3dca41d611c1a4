"""The paper's accounting: parameters, FLOPs and structure of a network.

Parameters are the non-zeros by mask, and the weights that cannot be pruned; biases are not counted.
FLOPs of a matrix are `2·rows·columns` of the smallest sub-matrix that holds all its non-zeros, for
every position at which it is multiplied, summed over the matrices (Section 5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sparsemble.structure.layout import Layout
from sparsemble.structure.products import Matrix

FORWARD_AND_BACKWARD = 3
"""Products of a training step for each of a forward pass: that itself, the gradient of what it
reads, and that of its weights."""
BYTES_EACH = 4
"""Of a number that is left, as a 32-bit float."""


@dataclass(frozen=True)
class Cost:
    """What one network costs.

    `shapes` holds rows and columns of what each multiplication needs, `positions` how often it is
    done for one example where that is more than once, `products` the FLOPs of products without
    weights, `structure` the number of units of each space that is not fixed.
    """

    parameters: int
    shapes: dict[str, tuple[int, int]]
    structure: tuple[int, ...]
    positions: dict[str, int] = field(default_factory=dict)
    products: dict[str, int] = field(default_factory=dict)

    @property
    def matrices(self) -> dict[str, int]:
        """FLOPs of each multiplication."""
        return {
            name: 2 * rows * columns * self.positions.get(name, 1)
            for name, (rows, columns) in self.shapes.items()
        } | self.products

    @property
    def flops(self) -> int:
        """FLOPs of one forward pass on one example."""
        return sum(self.matrices.values())


def measure(layout: Layout, masks: Mapping[str, Tensor]) -> Cost:
    """Cost of a network whose kept weights are the `True` entries of `masks`."""
    weights = sum(int(masks[name].count_nonzero()) for name in layout.weights)
    return _cost(layout, weights, {m.name: _smallest(layout, m, masks) for m in layout.matrices})


def measure_whole(layout: Layout, shapes: Mapping[str, Sequence[int]]) -> Cost:
    """Cost of a network that keeps all its weights; what they are takes no memory."""
    whole = {name: torch.empty(tuple(own), device="meta") for name, own in shapes.items()}
    weights = sum(whole[name].numel() for name in layout.weights)
    return _cost(layout, weights, {m.name: _area(layout, m, whole) for m in layout.matrices})


def _cost(layout: Layout, weights: int, shapes: dict[str, tuple[int, int]]) -> Cost:
    return Cost(
        parameters=weights + layout.unpruned,
        shapes=shapes,
        structure=tuple(layout.structure.values()),
        positions={m.name: m.positions for m in layout.matrices if m.positions > 1},
        products={own.name: own.flops(layout.sizes) for own in layout.products},
    )


def _smallest(layout: Layout, matrix: Matrix, masks: Mapping[str, Tensor]) -> tuple[int, int]:
    """Rows and columns of the smallest sub-matrix that holds all kept weights."""
    if matrix.area is not None:
        return _area(layout, matrix, masks)
    mask = torch.cat(_parts(layout, matrix, masks), dim=1)
    return int(mask.any(1).sum()), int(mask.any(0).sum())


def _area(layout: Layout, matrix: Matrix, masks: Mapping[str, Tensor]) -> tuple[int, int]:
    """Rows and columns altogether."""
    if matrix.area is not None:
        rows, columns = matrix.area
        return rows.at(layout.sizes), columns.at(layout.sizes)
    parts = _parts(layout, matrix, masks)
    return len(parts[0]), sum(part.shape[1] for part in parts)


def _parts(layout: Layout, matrix: Matrix, masks: Mapping[str, Tensor]) -> list[Tensor]:
    """The masks of what is multiplied at once, which lie beside each other."""
    parts = []
    for name in matrix.parameters:
        part = matrix.part.of(masks[name]).movedim(matrix.makes, 0).flatten(1)
        parts.append(part if matrix.rows is None else part[matrix.rows.at(layout.sizes)])
    return parts
