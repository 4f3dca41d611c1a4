"""A run that can be watched: progress on a terminal, scalars for TensorBoard, or in a process of
its own beside another run.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from dataclasses import dataclass
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from sparsemble.errors import SparsembleError
from sparsemble.recipes import Recipe
from sparsemble.runs.progress import TerminalProgress
from sparsemble.runs.results import Result, read_result, run_recipe
from sparsemble.runs.tensorboard import TensorBoard
from sparsemble.runs.workers import SPAWN, begin_worker
from sparsemble.stages import Observer
from sparsemble.stages.observer import Observers

_STOPPED = 130
"""The exit code of a process that was asked to stop."""


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
    with contextlib.ExitStack() as views:
        views.callback(progress.close)
        observer: Observer = progress
        if watch.tensorboard:
            board = TensorBoard(folder / "tensorboard")
            views.callback(board.close)
            observer = Observers(progress, board)
        return run_recipe(recipe, folder, data_folder=watch.data_folder, observer=observer)


class RunBeside:
    """A recipe that runs in a process of its own while the block goes on with something else.

    What it has to say comes out of the watch's console, a line a minute. A block that is left by
    an exception stops it; it saves first.
    """

    def __init__(self, recipe: Recipe, folder: Path, watch: Watch, *, threads: int) -> None:
        self._label = recipe.name
        self._folder = folder
        self._console = watch.console
        self._error: BaseException | None = None
        self._receiver, self._sender = SPAWN.Pipe(duplex=False)
        self._process = SPAWN.Process(
            target=_run,
            args=(self._sender, threads, recipe, folder),
            kwargs={"data_folder": watch.data_folder, "tensorboard": watch.tensorboard},
        )
        self._relay = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self._sender.close()  # the process has its own end, so that its end is seen
        self._relay.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.terminate()
        self._process.join()
        self._relay.join()

    def result(self) -> Result:
        """Wait for what came out; an error over there is raised here."""
        self._process.join()
        self._relay.join()
        if self._error is not None:
            raise self._error
        if self._process.exitcode != 0:
            raise SparsembleError(
                f"{self._label}: its process ended with code {self._process.exitcode}; the same "
                "command again goes on where it stopped"
            )
        return read_result(self._folder / "result.json")

    def _listen(self) -> None:
        while True:
            try:
                said = self._receiver.recv()
            except EOFError:
                return
            if isinstance(said, str):
                self._console.print(said)
            else:
                self._error = said
                self._console.print(f"{self._label}: {said}", style="yellow")


def _run(
    sender: Connection,
    threads: int,
    recipe: Recipe,
    folder: Path,
    *,
    data_folder: Path | None,
    tensorboard: bool,
) -> None:
    """What the other process does; only its starter asks it to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin_worker(threads)
    console = Console(
        file=_Lines(sender), highlight=False, markup=False, soft_wrap=True, force_terminal=False
    )
    try:
        watch_recipe(recipe, folder, Watch(console, data_folder, tensorboard, lines_every=60))
    except SparsembleError as error:
        sender.send(error)
    except KeyboardInterrupt:  # asked to stop, and saved
        sys.exit(_STOPPED)


class _Lines(StringIO):
    """A file whose lines go through a pipe, if anybody still reads there."""

    def __init__(self, sender: Connection) -> None:
        super().__init__()
        self._sender = sender
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        with contextlib.suppress(OSError):
            for line in lines:
                self._sender.send(line)
        return len(text)
