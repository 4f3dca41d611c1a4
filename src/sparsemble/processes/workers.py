"""Runs in processes of their own: the run's folder is all that goes in, and all that comes out.

A worker is `sparsemble resume FOLDER`. What it prints is passed on, a line at a time. It stops when
it is asked to, or when the process that started it ends; a run then saves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sparsemble.errors import DivergedError, InputError, SparsembleError

if TYPE_CHECKING:
    from rich.console import Console

DIVERGED, BAD_INPUT, INTERRUPTED = 3, 2, 130
"""Exit codes."""
_STARTER = "SPARSEMBLE_STARTED_BY"
_LOOK_EVERY = 1.0


class Worker:
    """One run on its way.

    Args:
        folder: Of a run that has been claimed: its `run.json` says what to do.
        data_folder: Where data sets lie.
        code: Import paths that the run's recipe may follow.
        console: Where its lines go.
    """

    def __init__(
        self,
        folder: Path,
        *,
        data_folder: Path | None = None,
        code: Sequence[str] = (),
        console: Console | None = None,
    ) -> None:
        options = [f"--code={path}" for path in code]
        if data_folder is not None:
            options.append(f"--data={data_folder}")
        self.folder = folder
        self._console = console
        self._last = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sparsemble", "resume", str(folder), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, _STARTER: str(os.getpid())},
            # Interrupts at the terminal are left to the starter: a second one would not wait.
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def stop(self) -> None:
        """Ask it to stop; it may take a moment to save."""
        self._process.terminate()

    def join(self) -> None:
        """Wait until it has ended, however."""
        self._process.wait()
        self._listener.join()

    def wait(self) -> None:
        """Wait until it is done; what went wrong there is raised here."""
        self.join()
        code = self._process.returncode
        if code == 0:
            return
        errors = {DIVERGED: DivergedError, BAD_INPUT: InputError}
        message = self._last.removeprefix("sparsemble: ")
        if code not in errors:
            message = (
                f"the run in {self.folder} ended with code {code} ({message}); the same command "
                "again goes on where it stopped"
            )
        raise errors.get(code, SparsembleError)(message)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last = line.rstrip() or self._last
            if self._console is not None:
                try:
                    self._console.print(line.rstrip(), markup=False)
                except (Exception, SystemExit):  # a broken pipe is the latter to rich
                    self._console = None


def is_worker() -> bool:
    """Was this process started as a worker?"""
    return _STARTER in os.environ


def stop_with_starter() -> None:
    """In a worker: end, with everything saved, when the process that started it is gone."""
    if is_worker():
        starter = int(os.environ[_STARTER])
        threading.Thread(target=_stop_without, args=(starter,), daemon=True).start()


def _stop_without(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(_LOOK_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
