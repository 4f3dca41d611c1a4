"""The numbers of a network, by name."""

from __future__ import annotations

from torch import Tensor, nn


def tensors_of(network: nn.Module) -> dict[str, Tensor]:
    """Its parameters and buffers."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}
