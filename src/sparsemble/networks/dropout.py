"""Dropout that costs little beside the layers it stands between."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16
_ANY_INT64 = -(1 << 63)


class Dropout(nn.Dropout):
    """`nn.Dropout` that on a CPU decides by 16 random bits per number, about four times as fast."""

    def forward(self, input: Tensor) -> Tensor:
        """Zero a share `p` of the numbers while training; otherwise nothing."""
        return drop(input, self.p) if self.training else input


def drop(values: Tensor, share: float) -> Tensor:
    """The values, each 0 with probability `share`, the others divided by `1 − share`.

    On a CPU the probability is `share` to the nearest of 65,536 steps; what is kept is scaled by
    exactly that.
    """
    if share == 0:
        return values
    if values.device.type != "cpu":
        return F.dropout(values, share)
    dropped = min(round(share * _LEVELS), _LEVELS - 1)
    words = torch.empty(-(-values.numel() // 4), dtype=torch.int64).random_(_ANY_INT64, None)
    bits = words.view(torch.int16)[: values.numel()].view(values.shape)
    kept = (bits >= dropped - _LEVELS // 2).to(values.dtype)
    return values * kept.mul_(_LEVELS / (_LEVELS - dropped))
