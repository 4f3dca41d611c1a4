"""Attention: a head is a unit, its queries, keys and values together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import fx

from sparsemble.tracing.rules.pointwise import meet
from sparsemble.tracing.rules.registry import Labels, rule
from sparsemble.tracing.uses import ActivationProduct
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk


@rule("scaled_dot_product_attention")
def attention(
    walk: Walk,
    node: fx.Node,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    **_: Any,
) -> Labels:
    """Unite over time and within heads; a head of keys goes with all heads of queries it serves."""
    heads = [walk.atoms.along(walk.labelled(value), (-1, -2)) for value in (q, k, v)]
    if enable_gqa:
        served = heads[0].shape[-3] // heads[1].shape[-3]
        heads[1:] = [labels.repeat_interleave(served, -3) for labels in heads[1:]]
    operands = list(zip((q, k, v), heads, strict=True))
    if mask is not None:
        operands.append((mask, walk.labelled(mask)))
        if mask.number.ndim > 1:
            operands[-1] = (mask, walk.atoms.along(mask.labels, (-1, -2)))
    labels = meet(walk, node, operands)
    walk.feed_if_mixed(q, k, v)
    shape = (*q.shape[:-1], v.shape[-1])
    # Scores take d products for each pair of positions, the mixing of values another d.
    both = 2 * k.shape[-2] * (q.shape[-1] + v.shape[-1])
    walk.products.append(ActivationProduct(node, labels.expand(*q.shape[:-1], 1), both))
    return labels.expand(shape)
