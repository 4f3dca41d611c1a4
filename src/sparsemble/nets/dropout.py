"""Dropout that costs little beside the layers it stands between."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16
_ANY_INT64 = -(1 << 63)


class Dropout(nn.Dropout):
    """`nn.Dropout` that on a CPU decides by 16 random bits per number, about four times as fast.

    Args:
        p: The share that is dropped.
        variational: Drop the same at every step, the first dimension (Gal & Ghahramani 2016).
    """

    def __init__(self, p: float = 0.5, *, variational: bool = False) -> None:
        super().__init__(p)
        self.variational = variational

    def forward(self, input: Tensor, p: float | None = None) -> Tensor:
        """Zero a share of the numbers, by default its own, while training; otherwise nothing."""
        if not self.training:
            return input
        share = self.p if p is None else p
        return drop(input, share, input.shape[1:] if self.variational else None)

    def extra_repr(self) -> str:
        """The settings."""
        return super().extra_repr() + (", variational=True" if self.variational else "")


def drop(values: Tensor, share: float, drawn: Sequence[int] | None = None) -> Tensor:
    """The values, each 0 with probability `share`, the others divided by `1 − share`.

    On a CPU the probability is `share` to the nearest of 65,536 steps; what is kept is scaled by
    exactly that.

    Args:
        values: Of any shape.
        share: How many are dropped, below 1.
        drawn: The shape of the draws, which are repeated along the dimensions it lacks; by default
            every value has its own.
    """
    if share == 0:
        return values
    if values.device.type != "cpu":
        if drawn is None:
            return F.dropout(values, share)
        return values * F.dropout(values.new_ones(drawn), share)
    shape = values.shape if drawn is None else torch.Size(drawn)
    dropped = min(round(share * _LEVELS), _LEVELS - 1)
    count = shape.numel()
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(_ANY_INT64, None)
    bits = words.view(torch.int16)[:count].view(shape)
    kept = (bits >= dropped - _LEVELS // 2).to(values.dtype)
    return values * kept.mul_(_LEVELS / (_LEVELS - dropped))
