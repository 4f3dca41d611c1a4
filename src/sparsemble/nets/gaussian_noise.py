"""Noise of a regression's targets as a layer: what the network cannot explain is learned, too."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GaussianNoise(nn.Module):
    """Appends the logarithms of the noise's variances to the means: the same for all inputs.

    >>> GaussianNoise(2)(torch.ones(3, 2)).shape
    torch.Size([3, 4])
    """

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.log_variance = nn.Parameter(torch.zeros(outputs))

    def reset_parameters(self) -> None:
        """Start at a variance of 1, that of standardised targets."""
        nn.init.zeros_(self.log_variance)

    def forward(self, means: Tensor) -> Tensor:
        """`(…, outputs)` means become `(…, 2·outputs)`: means, then log variances."""
        return torch.cat([means, self.log_variance.expand_as(means)], dim=-1)

    def extra_repr(self) -> str:
        """As other layers say their sizes."""
        return f"outputs={self.outputs}"
