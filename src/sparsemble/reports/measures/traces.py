"""How the two stages went, epoch by epoch, as their traces tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsemble.reports.opening import FinishedRun
from sparsemble.stages.history import EpochRecord, Rollback


@dataclass(frozen=True)
class ChainTrace:
    """One chain's epochs; of members that are retrained alone, one member's."""

    number: int
    epochs: tuple[int, ...]
    loss: tuple[float, ...]
    potential: tuple[float, ...]
    near_zero: tuple[float, ...]
    lr: tuple[float, ...]
    noise: tuple[float, ...]
    seconds: tuple[float, ...]
    flops: tuple[float, ...]
    """As shares of the first epoch's."""

    @property
    def changes_cost(self) -> bool:
        """Did an epoch come to cost more or less than the one before?"""
        return len(set(self.flops)) > 1


@dataclass(frozen=True)
class Undone:
    """A divergence, at a time in epochs, and what was done about it."""

    chain: int
    epoch: float
    reason: str
    back_to: int
    lr_factor: float


@dataclass(frozen=True)
class StageTrace:
    """All chains of a stage; `sampled` are the epochs after which samples were taken."""

    stage: str
    chains: tuple[ChainTrace, ...]
    undone: tuple[Undone, ...]
    sampled: tuple[float, ...] = ()
    burn_in: int = 0


def stage_traces(run: FinishedRun) -> tuple[StageTrace, ...]:
    """The stages that left a trace."""
    how = run.recipe.chain
    stages = []
    history = run.folder.chain.history(how.chains)
    if history.epochs:
        steps = run.steps
        chains = _chains(history.epochs)
        taken = tuple(step / steps for step in how.steps_to_collect(steps))
        undone = _undone(history.rollbacks, steps)
        stages.append(StageTrace("chain", chains, undone, taken, how.burn_in))
    if run.result.is_retrained:
        history = run.folder.stage(run.result.stage("retrain")).history()
        undone = _undone(history.rollbacks, run.retrain_steps)
        if history.epochs:
            stages.append(StageTrace("retrain", _chains(history.epochs), undone))
    return tuple(stages)


def _chains(records: Sequence[EpochRecord]) -> tuple[ChainTrace, ...]:
    traces = []
    for number in sorted({record.chain for record in records}):
        own = sorted((r for r in records if r.chain == number), key=lambda r: r.epoch)
        traces.append(
            ChainTrace(
                number,
                tuple(r.epoch for r in own),
                tuple(r.loss for r in own),
                tuple(r.potential for r in own),
                tuple(r.near_zero_groups for r in own),
                tuple(r.lr for r in own),
                tuple(r.noise_to_drift for r in own),
                tuple(r.seconds for r in own),
                tuple(r.flops / (own[0].flops or 1) for r in own),
            )
        )
    return tuple(traces)


def _undone(rollbacks: Sequence[Rollback], steps: int) -> tuple[Undone, ...]:
    return tuple(
        Undone(r.chain, r.step / steps, r.reason, r.back_to_epoch, r.lr_factor) for r in rollbacks
    )
