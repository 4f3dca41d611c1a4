"""A run on view while it lasts: on a terminal or in a notebook, and for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from sparsemble.progress.console import progress_console
from sparsemble.progress.tensorboard import TensorBoard
from sparsemble.progress.terminal import TerminalProgress
from sparsemble.stages import Callback, Callbacks


@contextmanager
def shown(
    console: Console, label: str, tensorboard: Path | None = None, lines_every: float | None = None
) -> Iterator[Callback]:
    """A callback that shows a run on a terminal and, if asked, writes scalars for TensorBoard."""
    with ExitStack() as views:
        progress = TerminalProgress(console, label, lines_every or 10)
        views.callback(progress.close)
        if tensorboard is None:
            yield progress
            return
        board = TensorBoard(tensorboard)
        views.callback(board.close)
        yield Callbacks(progress, board)


@contextmanager
def shown_if(
    wanted: bool | None, callback: Callback | None, label: str, console: Console | None = None
) -> Iterator[Callback]:
    """A callback that shows a run besides telling another one.

    Args:
        wanted: Show it? By default if somebody may be looking: on a terminal, or in a notebook.
        callback: Told what happens in any case.
        label: What the run is called.
        console: Where to show it.
    """
    console = console or progress_console()
    if wanted is None:
        wanted = console.is_terminal or console.is_jupyter
    if not wanted:
        yield callback or Callback()
        return
    with shown(console, label) as view:
        yield view if callback is None else Callbacks(view, callback)
