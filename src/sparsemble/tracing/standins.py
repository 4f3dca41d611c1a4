"""Recurrent layers under `torch.export`, which would unroll them over time.

While a network is captured its calls of `torch._VF.lstm` and its like go to stand-ins: operations
that only know what shapes they return. In the captured graph they are replaced by the real ones
again, one call for each layer and direction, so that each may have a size of its own.

Pooling along one dimension would be captured for one length: it is captured as pooling of
pictures one pixel high.

What is put in torch's place is there for all threads: others than the one that captures get what
they asked for.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional
from torch.nn.modules import rnn as _recurrent_modules
from torch.nn.utils import rnn as _packing

_LIBRARY = torch.library.Library("sparsemble", "FRAGMENT")
KINDS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Recurrent layers, as torch calls their operations."""
_ARGUMENTS = (
    "Tensor[] parameters, bool biased, int layers, float dropout, bool training, "
    "bool both_ways, bool batch_first"
)
_SCHEMAS = {
    kind: f"{kind}(Tensor x, Tensor[] state, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor)"
    if kind == "lstm"
    else f"{kind}(Tensor x, Tensor state, {_ARGUMENTS}) -> (Tensor, Tensor)"
    for kind in KINDS
}


def _shapes(x: Tensor, state: Any, *arguments: Any) -> tuple[Tensor, ...]:
    """What a layer returns: outputs, and the states it was given, one step later."""
    states = list(state) if isinstance(state, list | tuple) else [state]
    ways = 2 if arguments[-2] else 1
    outputs = x.new_empty((*x.shape[:-1], states[0].shape[-1] * ways))
    return (outputs, *(torch.empty_like(own) for own in states))


for _schema in _SCHEMAS.values():
    _LIBRARY.define(_schema)
for _kind in KINDS:
    torch.library.register_fake(f"sparsemble::{_kind}", _shapes, lib=_LIBRARY)


class _Patched:
    """`torch._VF` with stand-ins for recurrent layers, in the thread that made it."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._thread = get_ident()

    def __getattr__(self, name: str) -> Any:
        if get_ident() != self._thread:
            return getattr(self._real, name)
        if name == "_pack_padded_sequence":
            raise PackedSequenceError
        if name not in KINDS:
            return getattr(self._real, name)
        return lambda *arguments: call(name, *arguments)


def call(kind: str, x: Tensor, second: Any, third: Any, *rest: Any) -> Any:
    """The stand-in of a recurrent layer, called as `torch._VF` calls the layer."""
    if isinstance(third, Tensor):  # (data, batch_sizes, state, …)
        raise PackedSequenceError
    state = list(second) if kind == "lstm" else second
    return getattr(torch.ops.sparsemble, kind)(x, state, list(third), *rest)


class PackedSequenceError(Exception):
    """A packed sequence was given to a recurrent layer."""


@contextmanager
def standing_in() -> Iterator[None]:
    """Recurrent layers are not computed, but stood in for."""
    recurrent: Any = _recurrent_modules
    packing: Any = _packing
    module: Any = torch
    real, max_pool1d = recurrent._VF, torch.max_pool1d
    recurrent._VF = packing._VF = _Patched(real)
    module.max_pool1d = _max_pool1d
    try:
        yield
    finally:
        recurrent._VF = packing._VF = real
        module.max_pool1d = max_pool1d


def _max_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    kernel, padded, dilated = (int(_only(own)) for own in (kernel_size, padding, dilation))
    step = kernel if stride is None or stride == [] else int(_only(stride))
    pooled = functional.max_pool2d(
        x.unsqueeze(-2), (1, kernel), (1, step), (0, padded), (1, dilated), ceil_mode
    )
    return pooled.squeeze(-2)


def _only(setting: Any) -> Any:
    return setting[0] if isinstance(setting, list | tuple) else setting


@contextmanager
def drawing(number: float) -> Iterator[None]:
    """Single numbers that are drawn at random are this one."""
    real, thread = torch.rand, get_ident()

    def drawn(*size: Any, **named: Any) -> Any:
        single = size in ((), ([],), ((),)) and "size" not in named
        return number if single and get_ident() == thread else real(*size, **named)

    module: Any = torch
    module.rand = drawn
    try:
        yield
    finally:
        module.rand = real


def with_real_layers(graph: fx.Graph) -> None:
    """Replace stand-ins by the real operations, a layer and direction at a time, in place."""
    for node in list(graph.nodes):
        for kind in KINDS:
            if node.target is getattr(torch.ops.sparsemble, kind).default:
                _split(graph, node, getattr(torch.ops.aten, kind).input)
    graph.eliminate_dead_code()


def _split(graph: fx.Graph, node: fx.Node, target: Any) -> None:
    arguments: Any = node.args
    x, state, parameters, biased, layers, dropout, training, both_ways, batch_first = arguments
    states: Sequence[Any] = list(state) if isinstance(state, list | tuple) else [state]
    ways = 2 if both_ways else 1
    each = len(parameters) // (layers * ways)
    several = layers * ways > 1

    def step(function: Any, *arguments: Any) -> fx.Node:
        made = graph.call_function(function, arguments)
        made.meta.update({k: node.meta[k] for k in _KEPT if k in node.meta})
        return made

    def turned(x: fx.Node) -> fx.Node:
        return step(torch.ops.aten.transpose.int, x, 0, 1) if several and batch_first else x

    ends: list[list[fx.Node]] = [[] for _ in states]
    with graph.inserting_before(node):
        x = turned(x)  # as torch has it between layers: dropout draws in this order
        for layer in range(layers):
            outputs = []
            for way in range(ways):
                number = layer * ways + way
                own = parameters[number * each :][:each]
                begins = [_beginning(s, number, layers * ways, step) for s in states]
                read = step(torch.ops.aten.flip.default, x, [0]) if way else x
                begin = begins if len(states) > 1 else begins[0]
                tail = (biased, 1, 0.0, training, False, batch_first and not several)
                made = step(target, read, begin, list(own), *tail)
                output = step(operator.getitem, made, 0)
                outputs.append(step(torch.ops.aten.flip.default, output, [0]) if way else output)
                for k, end in enumerate(ends):
                    end.append(step(operator.getitem, made, k + 1))
            x = step(torch.ops.aten.cat.default, outputs, -1) if both_ways else outputs[0]
            if dropout and training and layer + 1 < layers:
                x = step(torch.ops.aten.dropout.default, x, dropout, True)
        x = turned(x)
        finals = [step(torch.ops.aten.cat.default, e, 0) if several else e[0] for e in ends]
    for user in list(node.users):
        number = int(str(user.args[1]))
        if number > 0 and several:
            _select_own(graph, user, ends[number - 1])
        user.replace_all_uses_with(x if number == 0 else finals[number - 1])
        graph.erase_node(user)
    graph.erase_node(node)


_KEPT = ("nn_module_stack", "stack_trace")


def _beginning(state: fx.Node, number: int, count: int, call: Any) -> fx.Node:
    """The initial state of one layer; zeros are made for each by itself."""
    aten = torch.ops.aten
    if count == 1:
        return state
    if state.op == "call_function" and state.target is aten.zeros.default:
        sizes: Any = state.args[0]
        made: fx.Node = call(aten.zeros.default, [1, *sizes[1:]])
        made.kwargs = dict(state.kwargs)
        return made
    own: fx.Node = call(aten.slice.Tensor, state, 0, number, number + 1)
    return own


def _select_own(graph: fx.Graph, stacked: fx.Node, own: Sequence[fx.Node]) -> None:
    """`h[-1]` is the state of one layer, not a part of a stack of all."""
    for select in list(stacked.users):
        if select.target is torch.ops.aten.select.int and select.args[1] == 0:
            with graph.inserting_before(select):
                picked = graph.call_function(
                    torch.ops.aten.select.int, (own[int(str(select.args[2]))], 0, 0)
                )
                picked.meta.update(select.meta)
            select.replace_all_uses_with(picked)
            graph.erase_node(select)
