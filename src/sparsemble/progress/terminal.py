"""Progress on the terminal: what is under way, how it goes, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from math import isfinite
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from sparsemble.pages.numbers import duration, size
from sparsemble.progress.remaining import Speed
from sparsemble.stages import (
    Callback,
    ChainState,
    EpochRecord,
    Jump,
    Rollback,
    SampleRecord,
    Shed,
)

_WORDS = {"chain": "sampling", "retrain": "retraining", "trial": "trying settings"}


class TerminalProgress(Callback):
    """A live bar on a terminal, a plain line every `lines_every` seconds elsewhere.

    The time left is that of the stage under way; all its chains, also those that run side by side,
    share one bar.
    """

    def __init__(
        self,
        console: Console,
        label: str,
        lines_every: float = 10,
        bars: Progress | None = None,
        lines: bool = False,
    ) -> None:
        """`bars` are those of several runs in one display; `lines` wants no bar in any case."""
        self._console = console
        self._label = label
        self._live = _can_move(console) and not lines
        self._pause = 0.2 if self._live else lines_every
        self._bars = bars or bars_on(console)
        self._task: TaskID | None = None
        self._stage = ""
        self._chains = 1
        self._total = 0
        self._done: dict[int, int] = {}
        self._ended: dict[str, set[int]] = {}
        self._speed = Speed(0)
        self._epoch = self._left_of_it = ""
        self._measured: SampleRecord | None = None
        self._divergences = 0
        self._shown = time.monotonic()

    def planned(self, folder: Path, needed: int) -> None:
        """Say what the run may take."""
        self._console.print(f"{self._label}: {folder} takes at most {size(needed)}")

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        """Show the stage."""
        self._left_of_it = ""
        begins = stage != self._stage
        if begins:
            self._stage = stage
            self._chains = chains
            self._total = total * chains
            self._epoch = ""
            self._done = dict.fromkeys(self._ended.pop(stage, ()), total)
        self._done[chain] = done
        if begins:
            self._speed = Speed(sum(self._done.values()))
            if self._live:
                self._show_bar()
        self._move()

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        """Move the bar."""
        self._done[chain] = step
        if time.monotonic() - self._shown > self._pause:
            self._move()

    def epoch_ended(self, record: EpochRecord) -> None:
        """Note the loss, and the sparsity forming."""
        self._epoch = f"{record.chain + 1}/{self._chains} " if self._chains > 1 else ""
        self._epoch += f"epoch {record.epoch} "
        self._epoch += f"{record.metric} {record.figure:.5g}"
        if isfinite(record.near_zero_groups):
            self._epoch += f", near-zero groups {100 * record.near_zero_groups:.0f} %"

    def measured(self, record: SampleRecord) -> None:
        """Note how the ensemble does so far; a stage may have parts that had ended before."""
        self._measured = record
        if record.stage != self._stage:
            self._ended.setdefault(record.stage, set()).add(record.chain)

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """Say where the chain went back to."""
        self._divergences += 1
        self._left_of_it = ""  # units may be back
        self._console.print(
            f"{self._label}: diverged at step {rollback.step} ({rollback.reason}); went back to "
            f"step {rollback.back_to}, learning rate × {rollback.lr_factor:.2f}",
            style="yellow",
        )

    def jumped(self, jump: Jump) -> None:
        """Say that a mean was useless."""
        self._console.print(
            f"{self._label}: the mean of the weights up to step {jump.step} was useless (loss "
            f"{jump.mean:.3g}, of the last iterate {jump.iterate:.3g}), and the iterate was taken",
            style="yellow",
        )

    def shed(self, shed: Shed) -> None:
        """Note how large the network still is."""
        self._left_of_it = f"{100 * shed.flops:.0f} % of the FLOPs left"

    def close(self) -> None:
        """Remove the bar."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        if self._live and not self._bars.tasks:
            self._bars.stop()

    def _show_bar(self) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._bars.start()
        title = f"{self._label}: {stage_in_words(self._stage)}"
        self._task = self._bars.add_task(title, total=self._total, left="", status="")

    def _move(self) -> None:
        done = sum(self._done.values())
        self._shown = time.monotonic()
        self._speed.mark(done)
        if self._live and self._task is not None:
            self._bars.update(
                self._task, completed=done, left=self._left(), status=self._status(), refresh=True
            )
        elif self._speed.per_second > 0:
            share = 100 * done / self._total
            what = f"{self._label}: {stage_in_words(self._stage)} {share:.0f} %"
            self._console.print(f"{what}{self._left()}, {self._status()}")

    def _ensemble(self) -> str:
        """How this stage's networks do together."""
        record = self._measured
        if record is None or record.stage != self._stage:
            return ""
        figure = f"{record.metric} {record.together:.4g}"
        return f"ensemble of {record.members}: {figure} on the {record.on}"

    def _left(self) -> str:
        left = self._speed.left(self._total)
        return "" if left is None else f", about {duration(left)} left"

    def _status(self) -> str:
        parts = [
            self._epoch,
            self._left_of_it,
            self._ensemble(),
            f"{self._divergences} divergences" if self._divergences else "",
            f"{self._speed.per_second:.3g} steps/s" if self._speed.per_second else "",
        ]
        return ", ".join(part for part in parts if part)


def bars_on(console: Console) -> Progress:
    """A display of bars, one for each run."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.percentage:.0f} %{task.fields[left]}", markup=False),
        TextColumn(
            "{task.fields[status]}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        console=console,
        auto_refresh=False,  # drawn when it moves, and by no thread beside the chain
        transient=True,
        expand=True,
    )


def _can_move(console: Console) -> bool:
    """Can a bar be drawn again in its place? In a notebook that takes ipywidgets."""
    if console.is_jupyter:
        return find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal


def stage_in_words(stage: str) -> str:
    """What people call a stage: `chain`, `retrain`, `prune-1`, `members-2-retrain`.

    >>> stage_in_words("chain"), stage_in_words("members-2-prune-1"), stage_in_words("another")
    ('sampling', '2 members, training after round 1 of pruning', 'another')
    """
    who, whose = "", stage
    if stage.startswith("members-"):
        count, _, whose = stage.removeprefix("members-").partition("-")
        who = "one network, " if count == "1" else f"{count} members, "
    if whose.startswith("prune-"):
        return f"{who}training after round {whose.removeprefix('prune-')} of pruning"
    return who + _WORDS.get(whose, whose)
