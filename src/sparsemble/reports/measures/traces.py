"""How the two stages went, epoch by epoch, as their traces tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsemble.reports.opening import FinishedRun
from sparsemble.stages.history import EpochRecord, Rollback


@dataclass(frozen=True)
class ChainTrace:
    """One chain's epochs; of language models being retrained, one member's."""

    number: int
    epochs: tuple[int, ...]
    loss: tuple[float, ...]
    potential: tuple[float, ...]
    near_zero: tuple[float, ...]
    rate: tuple[float, ...]
    noise: tuple[float, ...]


@dataclass(frozen=True)
class Setback:
    """A divergence, at a time in epochs, and what was done about it."""

    chain: int
    epoch: float
    reason: str
    back_to: int
    rate_factor: float


@dataclass(frozen=True)
class StageTrace:
    """All chains of a stage; `sampled` are the epochs after which samples were taken."""

    stage: str
    chains: tuple[ChainTrace, ...]
    setbacks: tuple[Setback, ...]
    sampled: tuple[float, ...] = ()
    burn_in: int = 0


def stage_traces(run: FinishedRun) -> tuple[StageTrace, ...]:
    """The stages that left a trace."""
    how = run.recipe.chain
    stages = []
    told = run.folder.chain.history().of_chains(how.chains)
    if told.epochs:
        steps = run.steps
        chains = _chains(told.epochs)
        taken = tuple(step / steps for step in how.steps_to_collect(steps))
        setbacks = _setbacks(told.rollbacks, steps)
        stages.append(StageTrace("chain", chains, setbacks, taken, how.burn_in))
    told = run.folder.retrain.history()
    if told.epochs and run.recipe.retrain is not None:
        setbacks = _setbacks(told.rollbacks, run.retrain_steps)
        stages.append(StageTrace("retrain", _chains(told.epochs), setbacks))
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
                tuple(r.rate for r in own),
                tuple(r.noise_to_drift for r in own),
            )
        )
    return tuple(traces)


def _setbacks(rollbacks: Sequence[Rollback], steps: int) -> tuple[Setback, ...]:
    return tuple(
        Setback(r.chain, r.step / steps, r.reason, r.back_to_epoch, r.rate_factor)
        for r in rollbacks
    )
