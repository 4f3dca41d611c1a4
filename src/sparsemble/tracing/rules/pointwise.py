"""Operations that work element by element: what meets belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx

from sparsemble.tracing.atoms import NONE, collapsed, thin, unlabelled
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk

_ALSO_WORDS = """
    dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout hardswish
    log_sigmoid to _to_copy type_as contiguous clone alias detach float double zeros_like
    ones_like rand_like randn_like full_like empty_like bernoulli copy tril triu masked_fill
    where softplus fill
"""
_ALSO = frozenset(_ALSO_WORDS.split())
"""Those that torch does not mark as such; they are known with a trailing underscore, too."""


def is_pointwise(node: fx.Node) -> bool:
    """Does an operation work element by element?"""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or operation_name(node).rstrip("_") in _ALSO


def pointwise(walk: Walk, node: fx.Node, values: Sequence[Value]) -> Tensor | None:
    """Unite what meets."""
    if not values:
        return None
    if operation_name(node) in ("to", "type_as"):
        values = values[:1]  # of a second one only the type counts
    if _is_computed_weight(values):
        walk.pin(f"a weight is computed from parameters by {place(node)}", *values)
        return None
    return meet(walk, node, [(value, walk.labelled(value)) for value in values])


def meet(
    walk: Walk, node: fx.Node, operands: Sequence[tuple[Value, Tensor]], *, outer: bool = False
) -> Tensor:
    """Unite labels element by element, as they broadcast; those of what comes out.

    An operand that is broadcast over several units (a gate, a temperature) is read by all of them:
    it stays, and is not united with them, except in an `outer` product, whose units all go
    together. Units that meet values of no unit stay, unless those are broadcast over them.
    """
    shape = torch.broadcast_shapes(*(labels.shape for _, labels in operands))
    result = unlabelled(shape)
    met = []
    # Those of full shape first: what the others meet are then units.
    for value, own in sorted(operands, key=lambda pair: _freedom(walk, pair[1], shape)):
        labels = thin(own.expand(shape))
        if _freedom(walk, own, shape) and not outer:
            labels = _apart_from_wide(walk, node, value, labels, result)
        met.append((value, own, labels))
        labels, result = thin(labels), thin(result)
        walk.atoms.unite(labels, result)
        result = _joined(walk, labels, result)
    for value, own, labels in met:
        unknown = (labels == NONE) & (result != NONE)
        if bool(unknown.any()):
            if value.data:
                walk.atoms.feed(result)
            lengths = [1] * (result.ndim - own.ndim) + list(own.shape)
            dims = [dim for dim, length in enumerate(lengths) if length > 1]
            reason = f"meets values of no known unit in {place(node)}"
            walk.need_all(torch.where(unknown, result, NONE), dims, reason)
    return result


def _freedom(walk: Walk, labels: Tensor, shape: torch.Size) -> int:
    """How little labels say: those of full shape most, those of nothing least."""
    if bool(walk.atoms.is_loose(labels).any()):
        return 2
    return int(labels.shape != shape)


def _apart_from_wide(
    walk: Walk, node: fx.Node, value: Value, labels: Tensor, result: Tensor
) -> Tensor:
    """The labels of a broadcast operand without those of atoms that meet several units."""
    roots = thin(walk.atoms.roots(thin(result)))
    mine, units = collapsed(thin(labels), roots)
    both = (mine != NONE) & (units != NONE)
    pairs = torch.stack([mine[both], units[both]], 1).unique(dim=0)
    atoms, counts = pairs[:, 0].unique(return_counts=True)
    wide = torch.isin(mine, atoms[counts > 1])
    if not bool(wide.any()):
        return labels
    wide = wide.expand(labels.shape)
    pinned = torch.where(walk.atoms.is_loose(labels), NONE, labels)[wide]
    if bool((pinned != NONE).any()):
        walk.atoms.pin(pinned, f"one value for several units in {place(node)}")
        if value.data:
            walk.atoms.feed(result[wide])
    return torch.where(wide, NONE, labels)


def _joined(walk: Walk, first: Tensor, second: Tensor) -> Tensor:
    """The labels of what two operands make: of a unit, if either belongs to one."""
    one, other = collapsed(first, second)
    loose = walk.atoms.is_loose(one)
    chosen = torch.where((other != NONE) & (loose | (one == NONE)), other, one)
    return thin(chosen).expand(first.shape)


def _is_computed_weight(values: Sequence[Value]) -> bool:
    """Only parameters, and what belongs to nothing: a weight that is made of others."""
    return any(value.is_view for value in values) and not any(
        value.data or not (value.is_view or value.is_unlabelled) for value in values
    )
