"""Which examples are copies of one another.

Rows of data that are repeated, to count for more, would stand on both sides of a split: validation
data then reward learning by heart. What is there more often than one repeats rows is common, and
may be on both sides, as it will be among what is predicted.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsemble.data.arguments import tensors_given
from sparsemble.data.dataset import Dataset

_COMMON = 20
"""Copies above which examples are told apart nevertheless."""
_AT_ONCE = 4096
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def alike(data: Dataset) -> Tensor:
    """A number for each example, the same for copies, counted up in the order they come.

    >>> from sparsemble.data.dataset import as_dataset
    >>> alike(as_dataset([[1.0], [2.0], [1.0], [1.0]], [0, 1, 0, 1])).tolist()
    [0, 1, 0, 2]
    """
    parts = (*tensors_given(data.inputs), data.targets)
    marks = torch.stack([_marks(part) for part in parts], dim=1)
    _, which, counts = torch.unique(marks, dim=0, return_inverse=True, return_counts=True)
    own = torch.arange(len(data))
    firsts = torch.full_like(counts, len(data)).scatter_reduce(0, which, own, "amin")
    firsts = torch.where(counts[which] > _COMMON, own, firsts[which])
    numbers: Tensor = torch.unique(firsts, return_inverse=True)[1]
    return numbers


def _marks(values: Tensor) -> Tensor:
    """A number for each row that is the same for equal ones, and hardly ever for others."""
    rows = values.flatten(1) if values.ndim > 1 else values.unsqueeze(1)
    drawn = torch.Generator().manual_seed(0)
    factors = torch.randint(-(1 << 62), 1 << 62, (rows.shape[1],), generator=drawn)
    whole = rows.cpu().contiguous().view(_INTEGERS[rows.element_size()])
    return torch.cat([(part.long() * factors).sum(1) for part in whole.split(_AT_ONCE)])
