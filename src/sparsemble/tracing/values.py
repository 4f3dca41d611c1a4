"""What a traced run computes: numbers, and beside them the labels of their units."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, fx

from sparsemble.tracing.atoms import NONE, collapsed


@dataclass
class Value:
    """A tensor of the traced run.

    A view of a parameter or buffer says which: `source`, and its elements' flat positions there.
    """

    labels: Tensor
    number: Tensor
    node: fx.Node
    source: str | None = None
    index: Tensor | None = None
    data: bool = False
    """Does it depend on the inputs?"""

    @property
    def shape(self) -> torch.Size:
        """Of the number."""
        return self.number.shape

    @property
    def is_view(self) -> bool:
        """Is it a view of a parameter or buffer?"""
        return self.source is not None and self.index is not None

    @property
    def is_unlabelled(self) -> bool:
        """Does none of it belong to an atom?"""
        return bool((collapsed(self.labels)[0] == NONE).all())

    @property
    def is_partly_unlabelled(self) -> bool:
        """Does some of it belong to no atom?"""
        return bool((collapsed(self.labels)[0] == NONE).any())
