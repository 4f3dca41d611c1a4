"""The keeper: an observer that keeps a stage resumable and hands everything on.

A checkpoint is written with every sample and whenever the last one is older than
`CHECKPOINT_EVERY` seconds, so that a kill loses at most that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sparsemble.runs.folder import StageFolder
from sparsemble.runs.interrupts import StopRequest
from sparsemble.stages import ChainState, Observer, Sample
from sparsemble.stages.observer import EpochRecord, Rollback

CHECKPOINT_EVERY = 45.0


class Keeper(Observer):
    """Keeps a history in memory and, if there is a folder, on disk."""

    def __init__(
        self,
        folder: StageFolder | None,
        forward: Observer | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        self.epochs: list[EpochRecord] = []
        self.rollbacks: list[Rollback] = []
        self._folder = folder
        self._forward = forward or Observer()
        self._stop = stop or StopRequest()
        self._saved = time.monotonic()

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        """Pass on."""
        self._forward.started(stage, chain, chains, done, total)

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """Write a checkpoint if the last one is old, or if the run was asked to stop."""
        late = time.monotonic() - self._saved >= CHECKPOINT_EVERY
        if self._folder is not None and (late or self._stop.made):
            self._folder.save_checkpoint(save())
            self._saved = time.monotonic()
        if self._stop.made:
            raise KeyboardInterrupt
        self._forward.stepped(chain, step, loss, save)

    def epoch_ended(self, record: EpochRecord) -> None:
        """Record."""
        self.epochs.append(record)
        if self._folder is not None:
            self._folder.record(record)
        self._forward.epoch_ended(record)

    def sampled(self, sample: Sample, save: Callable[[], ChainState]) -> None:
        """Keep the sample, then the state after it."""
        if self._folder is not None:
            self._folder.save_sample(sample)
            self._folder.save_checkpoint(save())
            self._saved = time.monotonic()
        self._forward.sampled(sample, save)

    def rolled_back(self, rollback: Rollback) -> None:
        """Record, and forget what the rollback undid."""
        self.rollbacks.append(rollback)
        self.epochs = [record for record in self.epochs if not rollback.undoes(record)]
        if self._folder is not None:
            self._folder.record(rollback)
            self._folder.drop_samples(rollback.chain, after=rollback.back_to)
        self._forward.rolled_back(rollback)
