"""Checkpointing: a callback that keeps a part of a stage resumable.

A checkpoint is written with every sample and whenever the last one is older than
`CHECKPOINT_EVERY` seconds, so that a kill loses at most that.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sparsemble.processes.interrupts import Stop
from sparsemble.runs.part_folder import PartFolder
from sparsemble.stages import Callback, ChainState, EpochRecord, History, Rollback, Sample
from sparsemble.stages.history import Jump, Record, Shed

CHECKPOINT_EVERY = 45.0


class Checkpointing(Callback):
    """Keeps a part's history in memory and, if there is a folder, everything on disk."""

    def __init__(self, folder: PartFolder | None, stop: Stop) -> None:
        self.history = History()
        self._folder = folder
        self._stop = stop
        self._saved = time.monotonic()

    def resume(self) -> tuple[ChainState | None, list[Sample]]:
        """Where an earlier session stopped and what it had; the trace is cut to that point."""
        if self._folder is None:
            return None, []
        self._folder.clean()
        state = self._folder.checkpoint()
        self._folder.rewind_trace(state)
        self.history = self._folder.history()
        if state is not None:
            # Samples after the checkpoint, which a kill or a rollback left, are taken again.
            self._folder.drop_samples(after=state.numbers["step"])
        return state, self._folder.samples(state)

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """Write a checkpoint if the last one is old, or if the run was asked to stop."""
        late = time.monotonic() - self._saved >= CHECKPOINT_EVERY
        asked = self._stop.stop_requested
        if late or asked:
            self._checkpoint(save)
        if asked:
            raise KeyboardInterrupt

    def epoch_ended(self, record: EpochRecord) -> None:
        """One more line of the trace."""
        self._record(record)

    def sampled(self, sample: Sample, save: Callable[[], ChainState]) -> None:
        """Keep the sample, then the state after it."""
        if self._folder is not None:
            self._folder.save_sample(sample)
        self._checkpoint(save)

    def jumped(self, jump: Jump) -> None:
        """One more line of the trace."""
        self._record(jump)

    def shed(self, shed: Shed) -> None:
        """One more line of the trace."""
        self._record(shed)

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """Record, and forget what the rollback undid: only once a checkpoint stands before it."""
        self._record(rollback)
        self._checkpoint(save)
        if self._folder is not None:
            self._folder.drop_samples(after=rollback.back_to)

    def _record(self, record: Record) -> None:
        self.history.add(record)
        if self._folder is not None:
            self._folder.record(record)

    def _checkpoint(self, save: Callable[[], ChainState]) -> None:
        if self._folder is not None:
            self._folder.save_checkpoint(save())
            self._saved = time.monotonic()
