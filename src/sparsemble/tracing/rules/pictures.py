"""Pooling, padding and other sizes of pictures: within every channel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torch import Tensor, fx

from sparsemble.tracing.naming import operation_name
from sparsemble.tracing.rules.registry import Labels, rule
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk

_POOLS = [f"{kind}_pool{n}d" for kind in ("max", "avg", "lp") for n in (1, 2, 3)]
_ADAPTIVE = [f"adaptive_{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)]
_INDEXED = ["max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"]
_SCALES = [
    f"upsample_{kind}"
    for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d")
] + ["upsample_bicubic2d", "grid_sampler_2d", "_upsample_nearest_exact2d"]


@rule(*_POOLS, *_ADAPTIVE, *_INDEXED, *_SCALES)
def within_channels(walk: Walk, node: fx.Node, x: Value, *rest: Any, **named: Any) -> Labels:
    """Units go on as they are; each is one over its picture."""
    found = re.search(r"(\d)d", operation_name(node).replace("_sampler_", ""))
    assert found is not None, node.name
    space = int(found.group(1))
    return _over_space(walk, x, space)


@rule("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad2d")
def pad(walk: Walk, node: fx.Node, x: Value, widths: Any, *rest: Any, **named: Any) -> Labels:
    """Units go on as they are; those along a dimension that is made longer become one."""
    last = walk.labelled(x).ndim - 1
    sides = enumerate(zip(widths[::2], widths[1::2], strict=True))
    return _joined(walk, x, tuple(last - k for k, both in sides if any(w != 0 for w in both)))


def _over_space(walk: Walk, x: Value, space: int) -> Labels:
    last = walk.labelled(x).ndim
    return _joined(walk, x, tuple(range(last - space, last)))


def _joined(walk: Walk, x: Value, dims: tuple[int, ...]) -> Labels:
    own = walk.atoms.along(walk.labelled(x), dims)
    if isinstance(walk.result, Tensor):
        return own.expand(walk.result.shape)
    return [own.expand(part.shape) for part in walk.result]
