"""Pruning: the paper's one threshold on magnitudes (Section 3.2), or units first to a budget.

The paper's rule is one threshold for the whole network, set by the configured overall sparsity. A
budget says what may be left instead, of FLOPs and of weights, and is reached in several rounds if
so asked, with some training in between. Biases are never pruned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.members import Member, compact_further
from sparsemble.settings import Positive, Settings
from sparsemble.stages.unit_pruning import prune_units
from sparsemble.structure import Layout

Scope = Literal["global", "layer"]


_FIRST_ROUND = 3.0
"""How many times its share a network keeps after the first of several rounds."""


class PruneSettings(Settings):
    """How much of every sample is pruned: by a `sparsity`, or to a budget of `flops`, `parameters`
    or both."""

    sparsity: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the weights that go, by one threshold."""
    scope: Scope = "global"
    """One threshold for the network, or one per layer."""
    flops: Positive | None = None
    """FLOPs that are left, as a share of the dense network's: whole units go."""
    parameters: Positive | None = None
    """Weights that are left, as a share of the dense network's: the largest stay."""
    latency: Positive | None = None
    """Time that a prediction takes, of one and of up to 1000 examples, as a multiple of the dense
    network's; what takes longer when measured is not chosen."""
    per: Literal["ensemble", "member"] = "ensemble"
    """Is the budget that of all members together, or of each?"""
    steps: Annotated[int, Field(ge=1, le=1000)] = 1
    """Rounds in which a budget is reached; between them members are trained."""
    between: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Epochs of training between two rounds, at the first rate of the retraining."""

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        budget = self.flops is not None or self.parameters is not None
        if budget == (self.sparsity is not None):
            raise ValueError("give a sparsity, or a budget: flops, parameters, or both")
        if self.steps > 1 and not budget:
            raise ValueError(f"steps = {self.steps} is for a budget of flops or parameters")
        if self.scope != "global" and budget:
            raise ValueError(f"scope = {self.scope!r} goes with a sparsity, not with a budget")
        return self

    @property
    def target(self) -> str:
        """What is asked for, in tables.

        >>> PruneSettings(sparsity=0.96).target, PruneSettings(flops=1.0, parameters=0.7).target
        ('96 %', '1.0× FLOPs, 0.7× parameters')
        """
        if self.sparsity is not None:
            return f"{100 * self.sparsity:.0f} %"
        asked = {"FLOPs": self.flops, "parameters": self.parameters, "latency": self.latency}
        return ", ".join(f"{share}× {what}" for what, share in asked.items() if share is not None)

    def shares(self, members: int) -> list[tuple[float | None, float | None]]:
        """What one of so many members keeps after every round, of FLOPs and of weights.

        >>> PruneSettings(flops=0.8, steps=3).shares(members=4)[::2]
        [(0.6000000000000001, None), (0.2, None)]
        """
        each = members if self.per == "ensemble" else 1
        rounds = range(self.steps - 1, -1, -1)
        factors = [_FIRST_ROUND ** (left / max(self.steps - 1, 1)) / each for left in rounds]
        return [(_times(self.flops, factor), _times(self.parameters, factor)) for factor in factors]


def _times(share: float | None, factor: float) -> float | None:
    return None if share is None else share * factor


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
    return _masks(weights, {name: own.numel() for name, own in weights.items()}, sparsity, scope)


def pruned_member(member: Member, how: PruneSettings) -> Member:
    """A sample, pruned by a sparsity and made compact."""
    return compact_further(member, masks_of(member, how)).eval()


def masks_of(member: Member, how: PruneSettings) -> dict[str, Tensor]:
    """Which weights of a sample stay by a sparsity; what has gone already counts as pruned."""
    assert how.sparsity is not None
    weights = {name: member.network.get_parameter(name).detach() for name in member.layout.weights}
    return _masks(weights, member.whole_sizes(), how.sparsity, how.scope)


def _masks(
    weights: Mapping[str, Tensor], whole: Mapping[str, int], sparsity: float, scope: Scope
) -> dict[str, Tensor]:
    """Masks of the largest weights, of tensors that were as large as `whole` says."""
    if scope == "layer":
        return {
            name: _largest([weight], _left_to_prune(sparsity, whole[name], weight.numel()))[0]
            for name, weight in weights.items()
        }
    own = sum(weight.numel() for weight in weights.values())
    left = _left_to_prune(sparsity, sum(whole.values()), own)
    return dict(zip(weights, _largest(list(weights.values()), left), strict=True))


def _left_to_prune(sparsity: float, whole: int, own: int) -> float:
    """The sparsity of what is left of so many weights that makes one of them all."""
    return max(sparsity - (whole - own) / whole, 0.0) * (whole / max(own, 1))


def within(member: Member, flops: float | None, weights: float | None) -> Member:
    """A member pruned and made compact to shares of its dense network's FLOPs and weights."""
    dense = member.dense_cost
    masks = prune_units(
        dict(member.network.named_parameters()),
        member.layout,
        flops=None if flops is None else flops * dense.flops,
        weights=None if weights is None else weights * dense.parameters,
    )
    return compact_further(member, masks).eval()


def _largest(weights: list[Tensor], sparsity: float) -> list[Tensor]:
    """Masks of the largest magnitudes over all tensors together."""
    magnitudes = torch.cat([weight.abs().flatten().cpu() for weight in weights])
    count = round((1 - sparsity) * magnitudes.numel())
    kept = torch.zeros(magnitudes.numel(), dtype=torch.bool)
    if count == magnitudes.numel():
        kept.fill_(True)
    else:
        kept[magnitudes.topk(count, sorted=False).indices] = True
        kept &= magnitudes > 0  # of two zeros none is worth keeping
    parts = kept.split([weight.numel() for weight in weights])
    return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]
