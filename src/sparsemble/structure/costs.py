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

from sparsemble.structure.units import Layout


@dataclass(frozen=True)
class Cost:
    """What one network costs; `matrices` holds the FLOPs of each multiplication."""

    parameters: int
    matrices: dict[str, int]
    structure: tuple[int, ...]

    @property
    def flops(self) -> int:
        """FLOPs of one forward pass on one example."""
        return sum(self.matrices.values())


def measure(layout: Layout, masks: Mapping[str, Tensor]) -> Cost:
    """Cost of a network whose kept weights are the `True` entries of `masks`."""
    return Cost(
        parameters=sum(int(masks[name].count_nonzero()) for name in layout.weights),
        matrices={
            matrix.name: _flops([masks[name] for name in matrix.parameters], matrix.rows)
            for matrix in layout.matrices
        },
        structure=tuple(space.size for space in layout.spaces),
    )


def _flops(parts: list[Tensor], rows: tuple[int, int] | None) -> int:
    mask = torch.cat(parts, dim=1)
    if rows is not None:
        mask = mask[rows[0] : rows[1]]
    return 2 * int(mask.any(1).sum()) * int(mask.any(0).sum())
