"""What happens in a job, told over its line and told on to a callback."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparsemble.engines.engine import Line
from sparsemble.errors import InputError
from sparsemble.stages import (
    Callback,
    ChainState,
    EpochRecord,
    Jump,
    Rollback,
    SampleRecord,
    Shed,
)

_PAUSE = 0.5
"""Seconds between two steps that are told of."""


class Telling(Callback):
    """Tells what is light; samples and states stay where they are."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._told = 0.0

    def planned(self, folder: Path, needed: int) -> None:
        """A run begins."""
        self._line.tell(("planned", folder, needed))

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        """A chain begins or goes on."""
        self._line.tell(("started", stage, chain, chains, done, total))

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """One step of many."""
        if time.monotonic() - self._told > _PAUSE:
            self._told = time.monotonic()
            self._line.tell(("stepped", chain, step, loss))

    def epoch_ended(self, record: EpochRecord) -> None:
        """An epoch was completed."""
        self._line.tell(("epoch_ended", record))

    def measured(self, record: SampleRecord) -> None:
        """An ensemble was measured."""
        self._line.tell(("measured", record))

    def jumped(self, jump: Jump) -> None:
        """A mean was useless."""
        self._line.tell(("jumped", jump))

    def shed(self, shed: Shed) -> None:
        """Units left a chain."""
        self._line.tell(("shed", shed))

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """A divergence was undone."""
        self._line.tell(("rolled_back", rollback))


def told_on(callback: Callback, what: tuple[Any, ...]) -> None:
    """Let a callback know what a job has told."""
    name, *arguments = what
    if name in ("stepped", "rolled_back"):
        arguments.append(_far_away)
    getattr(callback, name)(*arguments)


def _far_away() -> ChainState:
    raise InputError("the state of a chain that runs in another process cannot be had here")
