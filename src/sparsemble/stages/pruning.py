"""Pruning: keep the weights of largest magnitude (Section 3.2).

The paper's rule is one threshold for the whole network, set by the configured overall sparsity.
Biases are never pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.members import Member, compact, filled
from sparsemble.settings import Settings
from sparsemble.structure import Layout

Scope = Literal["global", "layer"]


class PruneSettings(Settings):
    """How much of every sample is pruned."""

    sparsity: Annotated[float, Field(ge=0, lt=1)]
    """Share of the weights that go."""
    scope: Scope = "global"
    """One threshold for the network, or one per layer."""


def prune(
    parameters: Mapping[str, Tensor], layout: Layout, *, sparsity: float, scope: Scope = "global"
) -> dict[str, Tensor]:
    """Masks that keep the `1 − sparsity` largest weights.

    Args:
        parameters: The network's, or a sample's, by name.
        layout: Says which of them are weights.
        sparsity: The share of the weights that go.
        scope: `global` for one threshold over the whole network, `layer` for one per parameter.

    >>> layout = Layout((), (), (), ())
    >>> prune({}, layout, sparsity=1.2)
    Traceback (most recent call last):
    ...
    sparsemble.errors.InputError: sparsity = 1.2: must be at least 0 and below 1
    """
    if not 0 <= sparsity < 1:
        raise InputError(f"sparsity = {sparsity}: must be at least 0 and below 1")
    if scope not in ("global", "layer"):
        raise InputError(f"scope {scope!r} is not 'global' or 'layer'")
    missing = [name for name in layout.weights if name not in parameters]
    if missing:
        raise InputError(f"the layout's weight {missing[0]!r} is not among the parameters")
    weights = {name: parameters[name].detach() for name in layout.weights}
    if scope == "layer":
        return {name: _largest([weight], sparsity)[0] for name, weight in weights.items()}
    masks = _largest(list(weights.values()), sparsity)
    return dict(zip(weights, masks, strict=True))


def pruned_member(
    network: nn.Module, layout: Layout, parameters: Mapping[str, Tensor], how: PruneSettings
) -> Member:
    """A sample of `network`, pruned and made compact."""
    masks = prune(parameters, layout, sparsity=how.sparsity, scope=how.scope)
    return compact(filled(network, parameters), layout, masks).eval()


def _largest(weights: list[Tensor], sparsity: float) -> list[Tensor]:
    """Masks of the largest magnitudes over all tensors together."""
    magnitudes = torch.cat([weight.abs().flatten() for weight in weights])
    count = round((1 - sparsity) * magnitudes.numel())
    kept = torch.zeros(magnitudes.numel(), dtype=torch.bool)
    if count == magnitudes.numel():
        kept.fill_(True)
    else:
        kept[magnitudes.topk(count, sorted=False).indices] = True
        kept &= magnitudes > 0  # of two zeros none is worth keeping
    parts = kept.split([weight.numel() for weight in weights])
    return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]
