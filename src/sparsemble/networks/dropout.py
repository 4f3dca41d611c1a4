"""Dropout that costs little beside the layers it stands between."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LEVELS = 1 << 16
_ANY_INT64 = -(1 << 63)


class Dropout(nn.Dropout):
    """`nn.Dropout` that on a CPU decides by 16 random bits per number, about four times as fast.

    Its rate is `p` to the nearest of 65,536 steps; what is kept is scaled by exactly that rate.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zero a share `p` of the numbers while training; otherwise nothing."""
        if not self.training or self.p == 0 or input.device.type != "cpu":
            return super().forward(input)
        dropped = min(round(self.p * _LEVELS), _LEVELS - 1)
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(_ANY_INT64, None)
        bits = words.view(torch.int16)[: input.numel()].view(input.shape)
        kept = (bits >= dropped - _LEVELS // 2).to(input.dtype)
        return input * kept.mul_(_LEVELS / (_LEVELS - dropped))
