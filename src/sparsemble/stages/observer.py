"""Who watches a stage: progress, traces and checkpoints hook in here; the default does nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sparsemble.stages.history import EpochRecord, Rollback, SampleRecord

if TYPE_CHECKING:
    from sparsemble.stages.chain import ChainState
    from sparsemble.stages.sampling import Sample


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

    def recalled(self, sample: Sample) -> None:
        """A sample that an earlier session collected, or the end of its retraining, was found."""

    def measured(self, record: SampleRecord) -> None:
        """The running ensemble was measured with a new sample or member in it."""

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """A divergence was undone; `save()` gives the state that the chain went back to."""


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

    def recalled(self, sample: Sample) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.recalled(sample)

    def measured(self, record: SampleRecord) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.measured(record)

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """Pass on."""
        for observer in self.observers:
            observer.rolled_back(rollback, save)
