"""Operations that work element by element: what meets belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx

from sparsemble.tracing.atoms import NONE, collapsed, thin, unlabelled
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.uses import Meeting
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk

_ALSO_WORDS = """
    dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout hardswish
    log_sigmoid to _to_copy type_as contiguous clone alias detach float double zeros_like
    ones_like rand_like randn_like full_like empty_like bernoulli copy masked_fill
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
    if they still are several when all is known, it stays. In an `outer` product they are united
    at once: its units all go together. Units that meet values of no unit stay, unless those are
    broadcast over them.
    """
    shape = torch.broadcast_shapes(*(labels.shape for _, labels in operands))
    result = unlabelled(shape)
    met = []
    # Those of full shape first: what the others meet are then units.
    for value, own in sorted(operands, key=lambda pair: _freedom(walk, pair[1], shape)):
        labels = thin(own.expand(shape))
        later = unlabelled(shape)
        if _freedom(walk, own, shape) and not outer:
            labels, later = _apart_from_wide(walk, labels, result)
            if bool((later != NONE).any()):
                reason = f"one value for several units in {place(node)}"
                walk.meetings.append(Meeting(later, result, _extent(own, shape), reason))
                if value.data:
                    walk.atoms.feed(torch.where(later != NONE, result, NONE))
        met.append((value, own, (labels == NONE) & (later == NONE)))
        labels, result = thin(labels), thin(result)
        walk.atoms.unite(labels, result)
        result = _joined(walk, labels, result)
    for value, own, unknown in met:
        unknown = unknown & (result != NONE)
        if bool(unknown.any()):
            if value.data:
                walk.atoms.feed(result)
            reason = f"meets values of no known unit in {place(node)}"
            walk.need_all(torch.where(unknown, result, NONE), _extent(own, shape), reason)
    return result


def _extent(labels: Tensor, shape: torch.Size) -> tuple[int, ...]:
    """The dimensions of `shape` along which labels are not broadcast."""
    lengths = [1] * (len(shape) - labels.ndim) + list(labels.shape)
    return tuple(dim for dim, length in enumerate(lengths) if length > 1)


def _freedom(walk: Walk, labels: Tensor, shape: torch.Size) -> int:
    """How little labels say: those of full shape most, those of nothing least."""
    if bool(walk.atoms.is_loose(labels).any()):
        return 2
    return int(labels.shape != shape)


def _apart_from_wide(walk: Walk, labels: Tensor, result: Tensor) -> tuple[Tensor, Tensor]:
    """The labels of a broadcast operand without those of atoms that meet several units; and these.

    Of the latter without loose ones, which belong to nothing.
    """
    wide = walk.atoms.is_wide(labels, result)
    loose = walk.atoms.is_loose(labels)
    return torch.where(wide, NONE, labels), torch.where(wide & ~loose, labels, NONE)


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
