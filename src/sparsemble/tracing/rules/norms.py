"""Normalisations: parameters and statistics follow their channel; what is normalised across units
needs all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import fx

from sparsemble.structure import Role
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.rules.products import attach
from sparsemble.tracing.rules.registry import Labels, rule
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from torch import Tensor

    from sparsemble.tracing.walk import Walk


@rule("batch_norm", "instance_norm")
def batch_norm(walk: Walk, node: fx.Node, x: Value, *parameters: Any) -> Labels:
    """Every channel by itself: scale, shift and statistics go with it."""
    channel = _channels(walk, x)
    for own in parameters[:4]:
        if isinstance(own, Value):
            attach(walk, node, own, channel, Role.FOLLOWER)
    return channel.view(1, -1, *[1] * (x.number.ndim - 2)).expand(x.shape)


@rule("group_norm")
def group_norm(walk: Walk, node: fx.Node, x: Value, groups: int, *parameters: Any) -> Labels:
    """A unit is a group of channels."""
    channel = _channels(walk, x)
    walk.atoms.along(channel.view(groups, -1), (1,))
    for own in parameters[:2]:
        if isinstance(own, Value):
            attach(walk, node, own, channel, Role.FOLLOWER)
    walk.group_counts[node] = channel.view(groups, -1)[:, 0]
    return channel.view(1, -1, *[1] * (x.number.ndim - 2)).expand(x.shape)


@rule("layer_norm", "rms_norm")
def layer_norm(
    walk: Walk, node: fx.Node, x: Value, shape: Sequence[int], *parameters: Any
) -> Labels:
    """Across the last dimensions: if units change there, none of them may go."""
    labels = walk.labelled(x)
    count = len(shape)
    dims = tuple(range(x.number.ndim - count, x.number.ndim))
    walk.need_all(labels, dims, f"normalised across the units by {place(node)}")
    for own in parameters[:2]:
        if isinstance(own, Value):
            if count == 1:
                others = tuple(range(labels.ndim - 1))
                if walk.atoms.differ_along(labels, others) if others else False:
                    # One entry for elements of several units: it goes with none of them.
                    walk.pin(f"shared by several units in {place(node)}", own)
                else:
                    channel = walk.atoms.along(labels, others).flatten()
                    attach(walk, node, own, channel, Role.FOLLOWER)
            else:
                walk.pin(f"normalised across several dimensions by {place(node)}", x, own)
    return labels


@rule("softmax", "log_softmax", "_softmax", "_log_softmax", "cumsum", "cumprod", "sort", "argsort")
def along_one_dimension(walk: Walk, node: fx.Node, x: Value, *rest: Any, **named: Any) -> Labels:
    """What is computed along a dimension needs all of it."""
    labels = walk.labelled(x)
    dim = named.get("dim", rest[0] if rest else -1)
    if not isinstance(dim, int) or isinstance(dim, bool):
        walk.pin(f"computed along an unknown dimension by {place(node)}", x)
        return None
    walk.need_all(labels, (dim,), f"computed across the units by {place(node)}")
    if operation_name(node) in ("cumsum", "cumprod"):
        walk.atoms.sum_up(labels)
    if operation_name(node) == "sort":
        return [labels, labels]
    return labels


@rule("prelu")
def prelu(walk: Walk, node: fx.Node, x: Value, weight: Value) -> Labels:
    """Slopes go with their channel; a single one belongs to no unit."""
    if weight.number.numel() > 1:
        attach(walk, node, weight, _channels(walk, x), Role.FOLLOWER)
    return walk.labelled(x)


@rule("glu")
def glu(walk: Walk, node: fx.Node, x: Value, dim: int = -1) -> Labels:
    """A value and its gate are one unit."""
    first, second = walk.labelled(x).chunk(2, dim)
    walk.atoms.unite(first, second)
    return first


def _channels(walk: Walk, x: Value) -> Tensor:
    """The units of the second dimension."""
    labels = walk.labelled(x)
    return walk.atoms.along(labels, (0, *range(2, labels.ndim))).flatten()
