"""Pruning: the paper's one threshold on magnitudes (Section 3.2), or units first to a budget.

The paper's rule is one threshold for the whole network, set by the configured overall sparsity. A
budget says what may be left instead, of FLOPs, weights or bytes, and is reached in several rounds
if so asked, with some training in between. Biases are never pruned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.members import Member, compact_further
from sparsemble.settings import Count, Positive, Settings
from sparsemble.stages.unit_pruning import largest, least_flops, prune_units
from sparsemble.structure import Layout
from sparsemble.structure.costs import BYTES_EACH

Scope = Literal["global", "layer"]


_FIRST_ROUND = 3.0
"""How many times its share a network keeps after the first of several rounds."""


class Share(NamedTuple):
    """What one member may keep of a budget; `None` is no limit."""

    flops: float | None = None
    """Of the dense network's."""
    parameters: float | None = None
    """Of the dense network's."""
    bytes: float | None = None

    def suffices(self, dense: Member) -> bool:
        """Does it leave such a network a unit in every layer, and weights beside what stays?"""
        fewest = dense.layout.unpruned + 1
        if self.bytes is not None and self.bytes < BYTES_EACH * (dense.biases + fewest):
            return False
        weights = _times(self.parameters, dense.cost.parameters)
        if weights is not None and weights < fewest:
            return False
        if self.flops is None:
            return True
        least = least_flops(dict(dense.network.named_parameters()), dense.layout)
        return self.flops * dense.cost.flops >= least


class PruneSettings(Settings):
    """How much of every sample is pruned: by a `sparsity`, or to a budget of `flops`, `parameters`
    and `bytes`, or some of them."""

    sparsity: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the weights that go, by one threshold."""
    scope: Scope = "global"
    """One threshold for the network, or one per layer."""
    flops: Positive | None = None
    """FLOPs that are left, as a share of the dense network's: whole units go."""
    parameters: Positive | None = None
    """Weights that are left, as a share of the dense network's: the largest stay."""
    bytes: Count | None = None
    """Size of the weights and biases that are left, as 32-bit floats: the largest weights stay."""
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
        budget = any(limit is not None for limit in (self.flops, self.parameters, self.bytes))
        if budget == (self.sparsity is not None):
            raise ValueError("give a sparsity, or a budget: flops, parameters, bytes, or several")
        if self.steps > 1 and not budget:
            raise ValueError(f"steps = {self.steps} is for a budget of flops, parameters or bytes")
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
        shares = [f"{share}× {what}" for what, share in asked.items() if share is not None]
        return ", ".join(shares + ([] if self.bytes is None else [f"{self.bytes:,} bytes"]))

    def shares(self, members: int) -> list[Share]:
        """What one of so many members keeps after every round.

        >>> PruneSettings(flops=0.8, steps=3).shares(members=4)[-1]
        Share(flops=0.2, parameters=None, bytes=None)
        """
        each = members if self.per == "ensemble" else 1
        rounds = range(self.steps - 1, -1, -1)
        factors = [_FIRST_ROUND ** (left / max(self.steps - 1, 1)) / each for left in rounds]
        limits = (self.flops, self.parameters, self.bytes)
        return [Share(*(_times(limit, factor) for limit in limits)) for factor in factors]


def _times(limit: float | None, factor: float) -> float | None:
    return None if limit is None else limit * factor


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


def pruned(
    members: Iterable[Member],
    how: PruneSettings,
    *,
    settle: Callable[[Member], Member],
    train: Callable[[Sequence[Member], str], None] | None = None,
) -> list[Member]:
    """Members without what goes: by a sparsity at once, to a budget in rounds.

    Args:
        members: As they are, all of one ensemble.
        how: How much of them goes.
        settle: Makes a member whose weights have changed ready to predict.
        train: Trains members after every round but the last, which it is told the name of; without
            it there is but one round.
    """
    if how.sparsity is not None:
        return [settle(pruned_member(member, how)) for member in members]
    left = list(members)
    *rounds, last = how.shares(len(left))
    if train is not None:
        for number, share in enumerate(rounds, start=1):
            left = [settle(within(member, share)) for member in left]
            train(left, f"prune-{number}")
    return [settle(within(member, last)) for member in left]


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
    magnitudes = {name: weight.abs().cpu() for name, weight in weights.items()}
    if scope == "global":
        return largest(magnitudes, _count_kept(sparsity, sum(whole.values()), magnitudes))
    masks: dict[str, Tensor] = {}
    for name, own in magnitudes.items():
        masks |= largest({name: own}, _count_kept(sparsity, whole[name], {name: own}))
    return masks


def _count_kept(sparsity: float, whole: int, left: Mapping[str, Tensor]) -> int:
    """How many of the weights that are left stay, by a sparsity of the whole."""
    own = sum(weight.numel() for weight in left.values())
    gone = max(sparsity - (whole - own) / whole, 0.0) * (whole / max(own, 1))
    return round((1 - gone) * own)


def within(member: Member, share: Share) -> Member:
    """A member pruned and made compact to what it may keep."""
    dense = member.dense_cost
    smaller = _compacted(
        member, _times(share.flops, dense.flops), _times(share.parameters, dense.parameters)
    )
    if share.bytes is not None:
        # Biases go with their units alone, so that only now it is known what they take.
        weights = share.bytes / BYTES_EACH - smaller.biases
        if weights < 1:
            raise InputError(
                f"a share of {share.bytes:,.0f} bytes is too small for a member: its biases alone "
                f"take {BYTES_EACH * smaller.biases:,}"
            )
        smaller = _compacted(smaller, None, weights)
    return smaller.eval()


def _compacted(member: Member, flops: float | None, weights: float | None) -> Member:
    """A member of so many FLOPs and weights at most."""
    parameters = dict(member.network.named_parameters())
    masks = prune_units(parameters, member.layout, flops=flops, weights=weights)
    return compact_further(member, masks)
