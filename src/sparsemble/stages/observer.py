"""Who watches a stage: progress, traces and checkpoints hook in here; the default does nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsemble.stages.chain import ChainState
    from sparsemble.stages.sampling import Sample


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch of a chain looked like; one line of a run's trace.

    `loss` is the mean over the epoch's batches; `potential` adds the prior at the epoch's end, an
    estimate of U/N. `perplexity` is a language model's on the training text, dropout included; NaN
    for other networks.
    `noise_to_drift` compares the size of the injected noise with that of the gradient step.
    """

    stage: str
    chain: int
    epoch: int
    loss: float
    potential: float
    perplexity: float
    rate: float
    noise_to_drift: float
    near_zero_groups: float
    seconds: float


@dataclass(frozen=True)
class Rollback:
    """A divergence that was detected and undone."""

    stage: str
    chain: int
    step: int
    reason: str
    back_to: int
    back_to_epoch: int
    rate_factor: float

    def undoes(self, record: EpochRecord) -> bool:
        """Did the epoch belong to the stretch that was thrown away?"""
        same = (record.stage, record.chain) == (self.stage, self.chain)
        return same and record.epoch > self.back_to_epoch


class Observer:
    """Receives what happens; subclasses override what they care about."""

    def planned(self, folder: Path, needed: int) -> None:
        """A run that may take `needed` bytes of `folder` is about to begin or go on."""

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        """Chain `chain` of `chains`, of `total` steps each, begins or goes on after `done`."""

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """One step was taken; `save()` gives the chain's state after it."""

    def epoch_ended(self, record: EpochRecord) -> None:
        """An epoch was completed."""

    def sampled(self, sample: Sample, save: Callable[[], ChainState]) -> None:
        """A sample was collected, or retraining has ended; `save()` gives the state after it."""

    def rolled_back(self, rollback: Rollback) -> None:
        """A divergence was undone."""


class Observers(Observer):
    """Several observers, told one after the other."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def planned(self, folder: Path, needed: int) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.planned(folder, needed)

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.started(stage, chain, chains, done, total)

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.stepped(chain, step, loss, save)

    def epoch_ended(self, record: EpochRecord) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.epoch_ended(record)

    def sampled(self, sample: Sample, save: Callable[[], ChainState]) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.sampled(sample, save)

    def rolled_back(self, rollback: Rollback) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.rolled_back(rollback)
