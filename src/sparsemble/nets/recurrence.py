"""An LSTM layer by few, large products.

    a_t = W·x_t + U·h_{t−1} + b          gates i, f, o = σ(a), new value n = tanh(a)
    c_t = f·c_{t−1} + i·n
    h_t = o·tanh(c_t)

Only `U·h` and `Uᵀ·∂a` are multiplied a step at a time. `W·x` is one product for all steps, and the
gradients `∂a` of all steps are collected, so that `∂x = Wᵀ·∂a`, `∂W = Σ ∂a_t·x_tᵀ` and
`∂U = Σ ∂a_t·h_{t−1}ᵀ` are one each. PyTorch's own layer adds to `∂W` and `∂U` at every step, which
in bfloat16 takes as long again as its products once the sums outgrow the processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sparsemble.devices import has_bfloat16

_WIDE = 450
"""Narrower layers are faster in PyTorch's own."""
_LEAVES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")

LayerState = tuple[Tensor, Tensor]
"""Hidden and cell state, each `(1, streams, units)`."""


def run_layer(
    layer: nn.Module, values: Tensor, state: LayerState | None, recurrent: Tensor | None = None
) -> tuple[Tensor, LayerState]:
    """`layer(values, state)`; under autocast on a CPU a wide `nn.LSTM` learns faster this way.

    Args:
        layer: An `nn.LSTM` of one layer, or what computes the same.
        values: `(steps, streams, inputs)`.
        state: Where it starts; by default at zero.
        recurrent: Used instead of an `nn.LSTM`'s own recurrent weights.
    """
    faster = type(layer) is nn.LSTM and is_faster(layer)
    if recurrent is None and not faster:
        outputs, after = layer(values, state)
        return outputs, after
    own, within, *biases = (layer.get_parameter(leaf) for leaf in _LEAVES)
    weights = [own, within if recurrent is None else recurrent, *biases]
    if faster:
        return recur(values, state, weights)
    # What `nn.LSTM` itself calls: it only takes weights that are its parameters.
    outputs, hidden, cell = torch._VF.lstm(
        values, state or _at_zero(values, weights), weights, True, 1, 0.0, True, False, False
    )
    return outputs, (hidden, cell)


def _at_zero(values: Tensor, weights: Sequence[Tensor]) -> LayerState:
    zeros = weights[0].new_zeros(1, values.shape[1], weights[1].shape[1])
    return zeros, zeros


def is_faster(layer: nn.LSTM) -> bool:
    """Is `recur` faster than the layer itself, as things are now?"""
    weight = layer.get_parameter("weight_hh_l0")
    return (
        layer.hidden_size >= _WIDE
        and weight.device.type == "cpu"
        and weight.dtype is torch.float32  # autocast leaves others as they are
        and torch.is_grad_enabled()
        and torch.is_autocast_enabled("cpu")
        and has_bfloat16()
    )


def recur(
    values: Tensor, state: LayerState | None, weights: Sequence[Tensor]
) -> tuple[Tensor, LayerState]:
    """What a one-layer `nn.LSTM` with these weights computes, to be differentiated once.

    Args:
        values: `(steps, streams, inputs)`.
        state: Where it starts; by default at zero.
        weights: Of inputs, of units, and the two biases, in the order of `nn.LSTM`.
    """
    own, recurrent, *biases = weights
    state = state or _at_zero(values, weights)
    short = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else own.dtype
    with torch.autocast("cpu", enabled=False):
        outputs, cell = _Recurrence.apply(  # type: ignore[no-untyped-call]
            values.to(short),
            state[0][0].to(short),
            state[1][0],
            own.to(short),
            recurrent.to(short),
            biases[0] + biases[1],
        )
    return outputs, (outputs[-1:], cell.unsqueeze(0))


class _Recurrence(torch.autograd.Function):
    """Products in the format of the values, everything else in that of the cell's state."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        hidden: Tensor,
        cell: Tensor,
        own: Tensor,
        recurrent: Tensor,
        bias: Tensor,
    ) -> tuple[Tensor, Tensor]:
        steps, streams, _ = values.shape
        units = recurrent.shape[1]
        read = (values.flatten(0, 1) @ own.t()).view(steps, streams, 4 * units)
        gates = cell.new_empty(steps, streams, 4 * units)
        cells = cell.new_empty(steps + 1, streams, units)
        tanhs = cell.new_empty(steps, streams, units)
        hiddens = values.new_empty(steps + 1, streams, units)
        cells[0], hiddens[0] = cell, hidden
        for step in range(steps):
            sums = torch.addmm(read[step], hiddens[step], recurrent.t())
            torch.add(sums, bias, out=gates[step])
            i, f, new, o = gates[step].chunk(4, dim=1)
            for gate in (i, f, o):
                gate.sigmoid_()
            new.tanh_()
            torch.addcmul(f * cells[step], i, new, out=cells[step + 1])
            torch.tanh(cells[step + 1], out=tanhs[step])
            torch.mul(o, tanhs[step], out=hiddens[step + 1])
        ctx.save_for_backward(values, own, recurrent, gates, cells, tanhs, hiddens)
        return hiddens[1:], cells[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, last: Tensor) -> tuple[Tensor | None, ...]:
        values, own, recurrent, gates, cells, tanhs, hiddens = ctx.saved_tensors
        steps, streams, units = tanhs.shape
        i, f, new, o = gates.chunk(4, dim=2)
        # By how much c moves with the sums of i, f and n, and h with c and the sums of o.
        through = torch.stack(
            [i * (1 - i) * new, f * (1 - f) * cells[:-1], (1 - new.square()) * i], dim=2
        )
        h_by_cell, h_by_sum = (1 - tanhs.square()) * o, o * (1 - o) * tanhs
        sums = values.new_empty(steps, streams, 4, units)
        outer, cell = outer.to(cells.dtype), last.clone()
        back = torch.zeros_like(hiddens[0])
        for step in reversed(range(steps)):
            hidden = outer[step] + back
            cell.addcmul_(hidden, h_by_cell[step])
            torch.mul(cell.unsqueeze(1), through[step], out=sums[step, :, :3])
            torch.mul(hidden, h_by_sum[step], out=sums[step, :, 3])
            cell.mul_(f[step])
            back = sums[step].flatten(1) @ recurrent
        flat = sums.view(steps * streams, 4 * units)
        return (
            (flat @ own).view_as(values),
            back,
            cell,
            flat.t() @ values.flatten(0, 1),
            flat.t() @ hiddens[:-1].flatten(0, 1),
            flat.sum(0, dtype=cells.dtype),
        )
