"""What training cost: epochs, FLOPs and seconds of every stage, beside those of dense networks.

A step takes three times the FLOPs of a forward pass (`structure.costs`) for each of its examples,
and once those of a teacher. That is counted while a chain runs, and stands in the run's trace. What
a divergence undid has been paid for, and counts. One dense network is trained for as many epochs as
one chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparsemble.recipes import Recipe
from sparsemble.stages import EpochRecord, History, Rollback
from sparsemble.structure.costs import FORWARD_AND_BACKWARD


@dataclass(frozen=True)
class StageCost:
    """What a stage took; passes of every network over the data are its epochs.

    FLOPs and seconds are `None` where nobody counted them.
    """

    stage: str
    epochs: float
    flops: float | None
    seconds: float | None

    def __add__(self, other: StageCost) -> StageCost:
        return StageCost(
            self.stage,
            self.epochs + other.epochs,
            _sum(self.flops, other.flops),
            _sum(self.seconds, other.seconds),
        )


@dataclass(frozen=True)
class TrainingCost:
    """What all stages of a run took, and what one dense network takes."""

    stages: tuple[StageCost, ...]
    dense: StageCost
    shed: float = 0.0
    """FLOPs that chains would have taken besides, had no unit left them."""

    @property
    def total(self) -> StageCost:
        """All stages together."""
        return sum(self.stages, StageCost("all", 0.0, 0.0, 0.0))

    def beside(self, dense: TrainingCost, networks: int) -> TrainingCost:
        """The same, held against what training so many dense networks really took."""
        found = dense.total
        each = (None if v is None else v / networks for v in (found.flops, found.seconds))
        measured = StageCost(self.dense.stage, found.epochs / networks, *each)
        return replace(self, dense=measured)

    def share(self, stage: StageCost, networks: int = 1) -> float | None:
        """The FLOPs of a stage as a share of training so many dense networks."""
        if stage.flops is None or not self.dense.flops:
            return None
        return stage.flops / (networks * self.dense.flops)


def training_cost(
    history: History, recipe: Recipe, dense_flops: float, trials: StageCost | None = None
) -> TrainingCost:
    """What a run cost.

    Args:
        history: Of all its stages.
        recipe: What was run.
        dense_flops: What one dense network takes for one example, forwards.
        trials: What finding the recipe took, if it was looked for.
    """
    names = dict.fromkeys(record.stage for record in history.epochs)
    stages = [stage_cost(name, history) for name in names]
    examples = next((r.examples for r in history.epochs if r.stage == "chain"), 0)
    epochs = recipe.chain.epochs
    flops = FORWARD_AND_BACKWARD * dense_flops * examples * epochs
    dense = StageCost("one dense network", epochs, flops or None, None)
    found = (*([] if trials is None else [trials]), *stages)
    return TrainingCost(found, dense, saved_by_shedding(history))


def saved_by_shedding(history: History) -> float:
    """FLOPs of all chains with every unit, less what they took: none goes before an epoch ends."""
    chains = [r for r in (*history.epochs, *history.undone) if r.stage == "chain"]
    if not history.sheds or not chains:
        return 0.0
    first = min(chains, key=lambda record: record.epoch)
    each = first.flops / max(first.examples, 1)
    return math.fsum(each * record.examples - record.flops for record in chains)


def stage_cost(stage: str, history: History) -> StageCost:
    """What one stage took, with all that was undone in it."""
    whole = [r for r in (*history.epochs, *history.undone) if r.stage == stage]
    broken_off = [r for r in history.rollbacks if r.stage == stage]
    taken: list[EpochRecord | Rollback] = [*whole, *broken_off]
    return StageCost(
        stage,
        sum(r.networks for r in whole) + sum(_part(rollback, whole) for rollback in broken_off),
        _known(math.fsum(record.flops for record in taken)),
        _known(math.fsum(record.seconds for record in taken)),
    )


def _part(rollback: Rollback, epochs: Sequence[EpochRecord]) -> float:
    """How much of an epoch a divergence broke off, by others of the same chain."""
    for epoch in epochs:
        if epoch.chain == rollback.chain and epoch.examples:
            return epoch.networks * rollback.examples / epoch.examples
    return 0.0


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
