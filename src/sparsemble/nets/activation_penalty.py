"""Activation regularisation: large activations and sudden changes of them cost something.

Merity et al. (2018) add to the mean loss per token

    α·mean(h²) + β·mean((h_{t+1} − h_t)²)

with h what the decoder reads, in the first term after dropout, in the second before. The loss here
is summed over the steps of a window, so both means are taken as often as it has steps. Means are
over the units there once were: one that goes would else make all others dearer. They never show in
the loss: an identity adds their gradients on the way back, whatever the loss is made of.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def with_size_penalty(values: Tensor, alpha: float, units: int) -> Tensor:
    """The same `(steps, streams, units)`, whose squares, in means over `units`, cost `alpha`."""
    if alpha == 0:
        return values
    weight = 2 * alpha / max(values.shape[1] * units, 1)
    same: Tensor = _SizePenalty.apply(values, weight)  # type: ignore[no-untyped-call]
    return same


def with_change_penalty(values: Tensor, beta: float, units: int) -> Tensor:
    """The same `(steps, streams, units)`, whose squared changes from step to step cost `beta`."""
    steps, streams, _ = values.shape
    if beta == 0 or steps < 2:
        return values
    weight = 2 * beta * steps / max((steps - 1) * streams * units, 1)
    same: Tensor = _ChangePenalty.apply(values, weight)  # type: ignore[no-untyped-call]
    return same


class _SizePenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: float) -> Tensor:
        ctx.save_for_backward(values)
        ctx.weight = weight
        return values.view_as(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        return torch.add(outer, values, alpha=ctx.weight), None


class _ChangePenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: float) -> Tensor:
        ctx.save_for_backward(values)
        ctx.weight = weight
        return values.view_as(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        changes = values.diff(dim=0)
        gradient = outer.clone()
        gradient[1:].add_(changes, alpha=ctx.weight)
        gradient[:-1].sub_(changes, alpha=ctx.weight)
        return gradient, None
