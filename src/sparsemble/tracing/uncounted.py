"""Products that no unit runs through: FLOPs that stay, whatever is pruned.

A weight that is computed of others, or multiplied in a way that no rule knows, is in no matrix of
the layout. What such products take is counted by torch, on the examples that were traced, or from
the shapes where torch does not count. Weights that are multiplied as they are can be pruned; those
that others are computed of cannot, as many are divided by their norm, and only count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from sparsemble.tracing.naming import operation_name
from sparsemble.tracing.rules.recurrent import GATES
from sparsemble.tracing.values import Value
from sparsemble.tracing.walk import Walk

_WORDS = ("mm", "mv", "dot", "linear", "einsum", "conv")
"""What the names of products hold that torch counts."""
_OTHERS = frozenset({"bilinear", "embedding_bag", "_embedding_bag"})


def multiplied(walk: Walk) -> list[str]:
    """The parameters that products read as they are, and nothing else does."""
    return [
        walk.captured.held[node.name]
        for node in walk.captured.graph.nodes
        if node.op == "placeholder"
        and node.name in walk.captured.held
        and node.users
        and all(map(_is_product, node.users))
    ]


def computed_of(walk: Walk) -> list[str]:
    """The parameters of which weights are computed: without any input, on the way to a product."""
    held, found = walk.captured.held, dict[str, None]()
    behind: dict[fx.Node, tuple[str, ...]] = {}
    for node in walk.captured.graph.nodes:
        read = node.all_input_nodes
        if node.op == "call_function" and _is_product(node):
            for own in read:
                found |= dict.fromkeys(behind.get(own, ()) if own.op == "call_function" else ())
        if node.op == "placeholder" and node.name in held:
            behind[node] = (held[node.name],)
        elif node.op != "placeholder" and all(own in behind for own in read):
            behind[node] = tuple(dict.fromkeys(name for own in read for name in behind[own]))
    return list(found)


def _is_product(node: fx.Node) -> bool:
    name = operation_name(node) if node.op == "call_function" else ""
    known = name in _OTHERS or name.removesuffix("_cell") in GATES
    return known or ("attention" not in name and any(word in name for word in _WORDS))


def uncounted_flops(walk: Walk) -> int:
    """FLOPs of all examples together that neither matrices nor products of units tell of."""
    known = {own.node for own in walk.uses}
    known |= {own.node for own in walk.grouped} | {own.node for own in walk.products}
    return sum(
        _flops(walk, node)
        for node in walk.captured.graph.nodes
        if node.op == "call_function" and node not in known
    )


def _flops(walk: Walk, node: fx.Node) -> int:
    name = operation_name(node)
    if name.removesuffix("_cell") in GATES:
        x, _, *others = _numbers(walk, node.args)
        return _recurrent(x, others if name.endswith("_cell") else others[0])
    if name == "bilinear":
        first, _, weight, *_ = _numbers(walk, node.args)
        return int(2 * weight.numel() * (first.numel() // first.shape[-1]))
    if not _is_product(node):
        return 0
    assert callable(node.target)
    with FlopCounterMode(display=False) as counter:
        node.target(*_numbers(walk, node.args), **_numbers(walk, node.kwargs))
    return int(counter.get_total_flops())


def _recurrent(x: Tensor, parameters: Sequence[Tensor | None]) -> int:
    """Every weight is multiplied at every position."""
    weights = (own.numel() for own in parameters if own is not None and own.ndim == 2)
    return 2 * (x.numel() // x.shape[-1]) * sum(weights)


def _numbers(walk: Walk, arguments: Any) -> Any:
    """What an operation was called with."""
    values = fx.node.map_arg(arguments, walk.values.__getitem__)
    return pytree.tree_map(
        lambda own: own.number if isinstance(own, Value) else own,
        values,
        is_leaf=lambda own: isinstance(own, Value),
    )
