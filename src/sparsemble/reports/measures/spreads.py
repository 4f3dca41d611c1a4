"""How large groups and weights of a sample are, beside what the prior holds near zero.

A group of `d` weights is shown by the size of its weights, `‖θ_g‖/√d`: in that scale all families
share one near-zero width, `3·max(T/(Nλ), hλ)`, and can be compared with the pruning threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsemble.members import Member
from sparsemble.priors.group_sparse import near_zero_width
from sparsemble.reports.opening import FinishedRun
from sparsemble.stages import Sample
from sparsemble.stages.pruning import masks_of
from sparsemble.stages.updates import step_of_prior
from sparsemble.structure import GroupTerms

_BINS_A_DECADE = 8
_DECADES = 6
"""Sizes this many powers of ten below the largest are counted in the first bin."""


@dataclass(frozen=True)
class Histogram:
    """Counts between edges that are powers of ten: `counts[k]` from `edges[k]` to `edges[k+1]`."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class FamilySpread:
    """One family of groups; `near_zero` of them are within the prior's width."""

    name: str
    groups: int
    size: int
    near_zero: int
    histogram: Histogram


@dataclass(frozen=True)
class Spreads:
    """Of one sample; `width` is of a group sparse prior, `thermal` the noise's part of it.

    `held` is the share of weights below the width; `thresholds` holds the smallest kept weight, of
    the network, or of each matrix by its name.
    """

    member: int
    families: tuple[FamilySpread, ...]
    width: float | None
    thermal: float | None
    held: float
    weights: Histogram
    thresholds: dict[str, float]

    @property
    def near_zero(self) -> float:
        """Share of all groups that the prior holds near zero."""
        groups = sum(family.groups for family in self.families)
        return sum(family.near_zero for family in self.families) / max(groups, 1)


def sample_spreads(run: FinishedRun) -> Spreads | None:
    """Of the last sample, if the samples are there."""
    if not run.sample_files:
        return None
    sample = run.sample(len(run.sample_files) - 1)
    width, thermal = _peak(run, sample)
    member = run.fitted.dense(sample)
    whole = member.whole_weights()
    terms = GroupTerms(run.layout, whole)
    sizes = [
        norms / math.sqrt(terms.sizes[family.name])
        for family, norms in zip(terms.families, terms.norms(), strict=True)
    ]
    edges = decade_edges(torch.cat([*sizes, torch.zeros(1)]))
    families = tuple(
        FamilySpread(
            family.name,
            len(own),
            terms.sizes[family.name],
            0 if width is None else int((own < width).sum()),
            histogram(own, edges),
        )
        for family, own in zip(terms.families, sizes, strict=True)
    )
    weights = torch.cat([weight.abs().flatten() for weight in whole.values()])
    return Spreads(
        len(run.sample_files),
        families,
        width,
        thermal,
        0.0 if width is None else float((weights < width).double().mean()),
        histogram(weights, decade_edges(weights)),
        _thresholds(run, member),
    )


def _peak(run: FinishedRun, sample: Sample) -> tuple[float | None, float | None]:
    """What counts as near zero at a sample's time, and `T/(Nλ)`; none without a group prior."""
    penalty = run.recipe.prior.group_penalty
    if not penalty:
        return None, None
    epoch = -(-sample.step // run.steps)
    records = run.folder.chain.history().epochs
    rates = [r.lr for r in records if (r.chain, r.epoch) == (sample.chain, epoch)]
    lr = rates[-1] if rates else run.recipe.chain.schedule((sample.step - 1) / run.steps)
    chain = run.recipe.chain
    sampler = chain.sampler.build([torch.zeros(1)], lr=lr, num_data=run.num_data, seed=0)
    temperature, step = chain.sampler.temperature, step_of_prior(sampler, chain.every)
    width = near_zero_width(penalty, temperature, run.num_data, step)
    return width, temperature / (run.num_data * penalty)


def decade_edges(sizes: Tensor) -> tuple[float, ...]:
    """Edges that cover sizes up to the largest, some decades down."""
    largest = float(sizes.max()) or 1.0
    top = math.ceil(math.log10(largest) * 2) / 2
    smallest = sizes[sizes > 0]
    low = float(smallest.min()) if len(smallest) else largest
    bottom = min(max(math.floor(math.log10(low) * 2) / 2, top - _DECADES), top - 0.5)
    count = round((top - bottom) * _BINS_A_DECADE)
    return tuple(10 ** (bottom + (top - bottom) * k / count) for k in range(count + 1))


def histogram(sizes: Tensor, edges: tuple[float, ...]) -> Histogram:
    """Counts of sizes; what lies outside the edges goes into the first or last bin."""
    inner = torch.tensor(edges[1:-1], dtype=torch.float64)
    places = torch.bucketize(sizes.double(), inner, right=True)
    counts = torch.bincount(places, minlength=len(edges) - 1)
    return Histogram(edges, tuple(counts.tolist()))


def _thresholds(run: FinishedRun, sample: Member) -> dict[str, float]:
    how = run.recipe.prune
    if how is None or how.sparsity is None:
        return {}
    weights, masks = dict(sample.network.named_parameters()), masks_of(sample, how)
    if all(bool(mask.all()) for mask in masks.values()):
        return {}  # enough had gone before
    smallest = {
        name: float(weights[name].detach()[mask].abs().min())
        for name, mask in masks.items()
        if mask.any()
    }
    if how.scope == "global":
        return {"the whole network": min(smallest.values())} if smallest else {}
    return smallest
