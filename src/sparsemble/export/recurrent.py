"""Recurrent layers on their way to ONNX, which has operations for them: LSTM, GRU, RNN.

`torch.export` would unroll a layer over the steps of its example. While an ensemble is captured,
its layers go to the stand-ins that tracing has for them, and those are translated. What a layer's
rows are differs: torch stacks the gates of an LSTM as input, forget, cell, output and those of a
GRU as reset, update, new; ONNX as input, output, forget, cell and as update, reset, hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript import opset18
from onnxscript.function_libs.torch_lib.tensor_typing import TFloat
from torch.overrides import TorchFunctionMode

from sparsemble.errors import InputError
from sparsemble.tracing import standins

op: Any = opset18
_LSTM, _GRU, _RNN = (0, 3, 1, 2), (1, 0, 2), (0,)
"""Where each gate of ONNX stands among torch's."""


class StandingIn(TorchFunctionMode):
    """Calls of recurrent layers go to their stand-ins."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Any call of torch; those of recurrent layers are others."""
        kind = str(getattr(func, "__name__", "")).partition(".")[0]
        if kind in standins.KINDS and "sparsemble" not in str(func):
            return standins.call(kind, *args)
        return func(*args, **(kwargs or {}))


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What the stand-ins are in ONNX."""
    own = torch.ops.sparsemble
    return {
        own.lstm.default: _lstm,
        own.gru.default: _with_one_state(op.GRU, _GRU, linear_before_reset=1),
        own.rnn_tanh.default: _with_one_state(op.RNN, _RNN),
        own.rnn_relu.default: _with_one_state(op.RNN, _RNN, activations=["Relu"]),
    }


def _lstm(
    x: TFloat,
    state: Sequence[TFloat],
    parameters: Sequence[TFloat],
    biased: bool,
    layers: int,
    dropout: float,
    training: bool,
    both_ways: bool,
    batch_first: bool,
) -> tuple[TFloat, TFloat, TFloat]:
    read, weights = _prepared(_LSTM, x, parameters, layers, both_ways, batch_first)
    outputs, hidden, cell = op.LSTM(
        read,
        *weights,
        initial_h=state[0],
        initial_c=state[1],
        hidden_size=_units(state[0]),
    )
    return _all_steps(outputs, batch_first), hidden, cell


def _with_one_state(operation: Any, order: Sequence[int], **settings: Any) -> Callable[..., Any]:
    """The translation of a layer that carries one state: a GRU, or an RNN of some activation."""

    def translated(
        x: TFloat,
        state: TFloat,
        parameters: Sequence[TFloat],
        biased: bool,
        layers: int,
        dropout: float,
        training: bool,
        both_ways: bool,
        batch_first: bool,
    ) -> tuple[TFloat, TFloat]:
        read, weights = _prepared(order, x, parameters, layers, both_ways, batch_first)
        outputs, hidden = operation(
            read, *weights, initial_h=state, hidden_size=_units(state), **settings
        )
        return _all_steps(outputs, batch_first), hidden

    return translated


def _prepared(
    order: Sequence[int],
    x: Any,
    parameters: Sequence[Any],
    layers: int,
    both_ways: bool,
    batch_first: bool,
) -> tuple[Any, list[Any]]:
    """What is read, time first, and the weights and biases as ONNX has them."""
    if layers > 1 or both_ways:
        raise InputError(
            "a recurrent layer of several in one, or of two directions, in a network with a layout "
            "written by hand: write it as several layers, or have it traced"
        )
    if len(parameters) not in (2, 4):
        raise InputError("an LSTM with projections (proj_size), which ONNX does not have")
    own = [_reordered(parameter, order) for parameter in parameters]
    if len(own) == 4:  # the two biases are one
        own = [*own[:2], op.Concat(own[2], own[3], axis=0)]
    read = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    return read, [op.Unsqueeze(parameter, [0]) for parameter in own]


def _units(state: Any) -> int:
    units: int = state.shape[2]
    return units


def _reordered(parameter: Any, order: Sequence[int]) -> Any:
    if len(order) == 1:
        return parameter
    rows = parameter.shape[0] // len(order)
    gates = [op.Slice(parameter, [rows * k], [rows * (k + 1)], [0]) for k in order]
    return op.Concat(*gates, axis=0)


def _all_steps(outputs: Any, batch_first: bool) -> Any:
    """Without the dimension of directions."""
    steps = op.Squeeze(outputs, [1])
    return op.Transpose(steps, perm=[1, 0, 2]) if batch_first else steps
