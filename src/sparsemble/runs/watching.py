"""A run that can be watched: progress on a terminal, scalars for TensorBoard."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sparsemble.errors import SparsembleError
from sparsemble.recipes import Recipe
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.progress import TerminalProgress
from sparsemble.runs.results import Result, run_recipe
from sparsemble.runs.tensorboard import TensorBoard
from sparsemble.runs.workers import Worker
from sparsemble.stages import Observer
from sparsemble.stages.observer import Observers


@dataclass(frozen=True)
class Watch:
    """Where a run's data lie, and how it is watched."""

    console: Console
    data_folder: Path | None = None
    tensorboard: bool = False
    lines_every: float = 10
    """Seconds between lines where there is no terminal for a bar."""


def watch_recipe(recipe: Recipe, folder: Path, watch: Watch) -> Result:
    """Run a recipe in a folder and show how it goes."""
    progress = TerminalProgress(watch.console, recipe.name, watch.lines_every)
    with ExitStack() as views:
        views.callback(progress.close)
        observer: Observer = progress
        if watch.tensorboard:
            board = TensorBoard(RunFolder(folder).tensorboard)
            views.callback(board.close)
            observer = Observers(progress, board)
        return run_recipe(recipe, folder, data_folder=watch.data_folder, observer=observer)


def watch_beside(recipe: Recipe, folder: Path, watch: Watch, *, threads: int) -> Worker[Result]:
    """The same in a process of its own, which has something to say once a minute."""
    arguments = (recipe, folder, watch.data_folder, watch.tensorboard)
    return Worker(_watch, *arguments, console=watch.console, threads=threads)


def _watch(
    console: Console, recipe: Recipe, folder: Path, data_folder: Path | None, tensorboard: bool
) -> Result:
    try:
        return watch_recipe(recipe, folder, Watch(console, data_folder, tensorboard, 60))
    except SparsembleError as error:  # told now, and raised when the outcome is asked for
        console.print(f"{recipe.name}: {error}")
        raise
