"""Progress on the terminal: what is under way and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import isfinite
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sparsemble.stages import ChainState, Observer
from sparsemble.stages.observer import EpochRecord, Rollback

_WORDS = {"chain": "sampling", "retrain": "retraining"}


class TerminalProgress(Observer):
    """A live bar on a terminal, a plain line every `lines_every` seconds elsewhere."""

    def __init__(self, console: Console, label: str, lines_every: float = 10) -> None:
        self._console = console
        self._label = label
        self._chains = 1
        self._live = console.is_terminal
        self._pause = 0.2 if self._live else lines_every
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._stage = ""
        self._total = 0
        self._done = 0
        self._base = 0
        self._status = ""
        self._shown = self._begun = time.monotonic()
        self._at_begin = 0

    def planned(self, folder: Path, needed: int) -> None:
        """Say what the run may take."""
        self._console.print(f"{self._label}: {folder} takes at most {needed / 1e6:,.0f} MB")

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        """Show the stage; all its chains share one bar."""
        self._chains = chains
        if stage != self._stage:
            self._stage = stage
            self._total = total * chains
            self._begun = time.monotonic()
            self._at_begin = chain * total + done
            if self._task is not None:
                self._bar.remove_task(self._task)
            if self._live:
                self._bar.start()
                self._task = self._bar.add_task(
                    f"{self._label}: {_WORDS[stage]}", total=self._total, status=""
                )
        self._base = chain * total
        self._move(self._base + done)

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """Move the bar."""
        if time.monotonic() - self._shown > self._pause:
            self._move(self._base + step)

    def epoch_ended(self, record: EpochRecord) -> None:
        """Show the loss, and the sparsity forming."""
        self._status = f"{record.chain + 1}/{self._chains} " if self._chains > 1 else ""
        self._status += f"epoch {record.epoch} "
        if isfinite(record.perplexity):
            self._status += f"perplexity {record.perplexity:.1f}"
        else:
            self._status += f"loss {record.loss:.4f}"
        if isfinite(record.near_zero_groups):
            self._status += f" near-zero groups {100 * record.near_zero_groups:.0f} %"

    def rolled_back(self, rollback: Rollback) -> None:
        """Say so."""
        self._console.print(
            f"{self._label}: diverged at step {rollback.step} ({rollback.reason}); went back to "
            f"step {rollback.back_to}, learning rate × {rollback.rate_factor:.2f}",
            style="yellow",
        )

    def close(self) -> None:
        """Remove the bar."""
        if self._live:
            self._bar.stop()

    def _move(self, done: int) -> None:
        self._shown = time.monotonic()
        if self._live and self._task is not None:
            self._bar.update(self._task, completed=done, status=self._status)
        elif done > self._at_begin:
            rate = (done - self._at_begin) / max(self._shown - self._begun, 1e-9)
            left = (self._total - done) / rate
            self._console.print(
                f"{self._label}: {_WORDS[self._stage]} {100 * done / self._total:.0f} % "
                f"{self._status}, about {left:.0f} s left"
            )
