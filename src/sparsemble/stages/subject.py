"""What a chain moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from sparsemble.stages.updates import Update
from sparsemble.tasks import Forward


@dataclass(frozen=True)
class Subject:
    """The parameters of a network, or of several as one stack, and how they are used and moved."""

    parameters: Mapping[str, Tensor]
    """What moves, by name."""
    forward: Forward
    """From inputs to outputs with these parameters."""
    update: Update
    """Moves them by their gradients, by a prior and by noise."""
    flops: float
    """Of a forward pass on one example."""
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights that take part; gradients of the others are left out."""
    batch_dims: int = 0
    """How many leading dimensions of the parameters count members."""
