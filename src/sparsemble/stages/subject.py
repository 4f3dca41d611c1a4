"""What a chain moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from sparsemble.members import tensors_of
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
    others: Mapping[str, Tensor] = field(default_factory=dict)
    """What else the network holds: statistics that change with every batch, frozen parameters."""
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights that take part; gradients of the others are left out."""
    batch_dims: int = 0
    """How many leading dimensions of the parameters count members."""

    @property
    def members(self) -> torch.Size:
        """Those leading dimensions."""
        return next(
            (own.shape[: self.batch_dims] for own in self.parameters.values()), torch.Size()
        )

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return next(iter(self.parameters.values()), torch.empty(())).device


def learning_part(network: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters that learn, and all else that a network holds."""
    learning = {name: p for name, p in network.named_parameters() if p.requires_grad}
    others = {name: t for name, t in tensors_of(network).items() if name not in learning}
    return dict(learning), others
