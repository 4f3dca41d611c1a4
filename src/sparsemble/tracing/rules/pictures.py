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
    """Padding of space, not of channels: those of a padded dimension become one unit."""
    return _over_space(walk, x, len(widths) // 2)


def _over_space(walk: Walk, x: Value, space: int) -> Labels:
    labels = walk.labelled(x)
    own = walk.atoms.along(labels, tuple(range(labels.ndim - space, labels.ndim)))
    if isinstance(walk.result, Tensor):
        return own.expand(walk.result.shape)
    return [own.expand(part.shape) for part in walk.result]
