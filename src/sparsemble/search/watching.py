"""Watching a run while it lasts, and abandoning it once it is hopeless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparsemble.stages import Callback, EpochRecord, SampleRecord


@dataclass(frozen=True)
class Abandoned:
    """What comes of a run that was not worth finishing: the record at which that was seen."""

    record: EpochRecord | SampleRecord


class AbandonedError(Exception):
    """Leaves a run that is abandoned; never seen outside."""

    def __init__(self, record: EpochRecord | SampleRecord) -> None:
        super().__init__()
        self.outcome = Abandoned(record)


class Watcher(Callback):
    """Asks about every record of a run whether to abandon it."""

    def __init__(self, is_hopeless: Callable[[EpochRecord | SampleRecord], bool]) -> None:
        self._is_hopeless = is_hopeless

    def epoch_ended(self, record: EpochRecord) -> None:
        """An epoch was completed."""
        self._ask(record)

    def measured(self, record: SampleRecord) -> None:
        """The running ensemble was measured."""
        self._ask(record)

    def _ask(self, record: EpochRecord | SampleRecord) -> None:
        if self._is_hopeless(record):
            raise AbandonedError(record)
