"""The paper's accounting: parameters, FLOPs and structure of a network.

Parameters are the non-zeros by mask; biases are not counted. FLOPs of a matrix are
`2·rows·columns` of the smallest sub-matrix that holds all its non-zeros, summed over the matrices
that are multiplied (Section 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsemble.structure.layout import Layout

FORWARD_AND_BACKWARD = 3
"""Products of a training step for each of a forward pass: that itself, the gradient of what it
reads, and that of its weights."""


@dataclass(frozen=True)
class Cost:
    """What one network costs.

    `shapes` holds rows and columns of what each multiplication needs, `structure` the number of
    units of each space.
    """

    parameters: int
    shapes: dict[str, tuple[int, int]]
    structure: tuple[int, ...]

    @property
    def matrices(self) -> dict[str, int]:
        """FLOPs of each multiplication."""
        return {name: 2 * rows * columns for name, (rows, columns) in self.shapes.items()}

    @property
    def flops(self) -> int:
        """FLOPs of one forward pass on one example."""
        return sum(self.matrices.values())


def measure(layout: Layout, masks: Mapping[str, Tensor]) -> Cost:
    """Cost of a network whose kept weights are the `True` entries of `masks`."""
    return Cost(
        parameters=sum(int(masks[name].count_nonzero()) for name in layout.weights),
        shapes={
            matrix.name: _smallest([matrix.part.of(masks[name]) for name in matrix.parameters])
            for matrix in layout.matrices
        },
        structure=tuple(space.size for space in layout.spaces),
    )


def _smallest(parts: list[Tensor]) -> tuple[int, int]:
    """Rows and columns of the smallest sub-matrix that holds all kept weights."""
    mask = torch.cat(parts, dim=1)
    return int(mask.any(1).sum()), int(mask.any(0).sum())
