"""Operations that pick elements by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from sparsemble.structure import Role
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.rules.pointwise import meet
from sparsemble.tracing.rules.registry import Labels, rule
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk


@rule("index", "index_select", "gather", "take_along_dim")
def index(walk: Walk, node: fx.Node, x: Value, *rest: Any) -> Labels:
    """Done to the labels, with the real indices; units that change along what is picked stay."""
    labels = walk.labelled(x)
    if operation_name(node) == "index":
        dims = [dim for dim, picked in enumerate(rest[0]) if picked is not None]
    elif operation_name(node) == "take_along_dim":
        dims = [rest[1] % labels.ndim]
    else:
        dims = [rest[0] % labels.ndim]
    if x.is_view:  # of a table every row has the same columns
        labels = walk.atoms.along(labels, dims).expand(labels.shape)
    else:
        walk.need_all(labels, dims, f"picked by number in {place(node)}")
    assert callable(node.target)
    plain: Any = fx.node.map_aggregate(rest, lambda a: a.number if isinstance(a, Value) else a)
    result: Tensor = node.target(labels, *plain)
    if operation_name(node) in ("gather", "take_along_dim"):
        numbers = next(own for own in rest if isinstance(own, Value))
        return meet(walk, node, [(x, result), (numbers, walk.labelled(numbers))])
    return result


@rule("tril", "triu")
def triangle(walk: Walk, node: fx.Node, x: Value, *_: Any, **__: Any) -> Labels:
    """Which elements stay says their place: units that change there stay."""
    labels = walk.labelled(x)
    walk.need_all(labels, (-2, -1), f"cut to a triangle by {place(node)}")
    return labels


@rule("roll")
def roll(walk: Walk, node: fx.Node, x: Value, shifts: Any, dims: Sequence[int] = ()) -> Labels:
    """By how much says a number: units that change along what is rolled stay."""
    labels = walk.labelled(x)
    along = dims or tuple(range(labels.ndim))
    walk.need_all(labels, along, f"rolled by a number of places in {place(node)}")
    return torch.roll(labels, shifts, tuple(dims))


@rule("embedding")
def embedding(walk: Walk, node: fx.Node, weight: Value, ids: Value, *_: Any, **__: Any) -> Labels:
    """The columns of a table are units that its numbers make."""
    walk.pin(f"used as an index by {place(node)}", ids)
    if not weight.is_view or weight.shape != walk.tensors[str(weight.source)].shape:
        walk.pin(f"a table that is no parameter of its own in {place(node)}", weight)
        return None
    assert weight.source is not None
    columns = walk.atom(weight.source, 1)
    walk.note(weight.source, 1, Role.PRODUCER)
    return columns.expand(*ids.shape, len(columns))
