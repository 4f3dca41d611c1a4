"""Means, sums and maxima: over positions units go on, over units all of them are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import fx

from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.rules.registry import Labels, by_name, rule
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk

_OF_EQUALS = frozenset(["mean", "amax", "amin", "max", "min", "any", "all", "median"])
"""Of equal numbers they give that number, however many there are."""


@rule(*_OF_EQUALS, "sum", "prod", "var", "std", "var_mean", "linalg_vector_norm", "norm", "nansum",
      "logsumexp")  # fmt: skip
def reduction(walk: Walk, node: fx.Node, x: Value, *rest: Any, **named: Any) -> Labels:
    """Of the dimensions that are reduced."""
    name, labels = operation_name(node), walk.labelled(x)
    given = by_name(node, (x, *rest), named)
    if isinstance(given.get("other"), Value):  # the larger of two tensors
        from sparsemble.tracing.rules.pointwise import pointwise

        return pointwise(walk, node, [x, given["other"]])
    dim, keep = given.get("dim"), bool(given.get("keepdim", False))
    if dim is None or dim == []:
        walk.pin(f"reduced to one number by {place(node)}", x)
        return None
    dims = tuple(d % labels.ndim for d in ([dim] if isinstance(dim, int) else dim))
    walk.need_all(labels, dims, f"reduced across the units by {place(node)}")
    reduced = labels.amax(dims, keepdim=keep)
    if name not in _OF_EQUALS:
        walk.atoms.sum_up(labels)
    several = name in ("max", "min", "median", "var_mean")
    return [reduced, reduced] if several else reduced
