"""Callbacks: progress, traces and checkpoints hook into a stage here; the default does nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsemble.stages.history import EpochRecord, Jump, Rollback, SampleRecord, Shed

if TYPE_CHECKING:
    from sparsemble.stages.chain_state import ChainState
    from sparsemble.stages.samples import Sample


class Callback:
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

    def jumped(self, jump: Jump) -> None:
        """The mean of an interval was useless, and its last iterate is the sample instead."""

    def shed(self, shed: Shed) -> None:
        """Units at zero left the running chain."""

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """A divergence was undone; `save()` gives the state that the chain went back to."""


class Callbacks(Callback):
    """Several callbacks, called one after the other."""

    def __init__(self, *callbacks: Callback) -> None:
        for name in _EVENTS:
            setattr(self, name, _each([getattr(callback, name) for callback in callbacks]))


def _each(functions: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        for function in functions:
            function(*arguments)

    return call


_EVENTS = [name for name in vars(Callback) if not name.startswith("_")]
