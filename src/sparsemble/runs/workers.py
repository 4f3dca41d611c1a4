"""Calls in processes of their own, which stop when the process that started them does."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from multiprocessing import connection
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from rich.console import Console

from sparsemble.errors import SparsembleError

_SPAWN = multiprocessing.get_context("spawn")  # a fork would copy PyTorch's threads half
_STOPPED = 130
"""The exit code of a process that was asked to stop."""

Value = TypeVar("Value")


class Worker(Generic[Value]):
    """`function(console, *arguments)` in a process with `threads` threads, while the block runs.

    What it prints comes out of this process's `console`, a line at a time. If the block is left
    before it is done, or the starter ends, it is asked to stop; a run then saves. Interrupts at
    the terminal, which reach it too, are left to the starter: a second one would not wait for that.
    """

    def __init__(
        self,
        function: Callable[..., Value],
        *arguments: Any,
        console: Console | None,
        threads: int = 1,
    ) -> None:
        self._console = console
        self._said: list[Any] = []
        self._receiver, self._sender = _SPAWN.Pipe(duplex=False)
        self._process = _SPAWN.Process(
            target=_work, args=(self._sender, threads, function, arguments)
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> Self:
        """Begin."""
        with _interrupts_ignored():  # inherited, so that it holds from its first moment
            self._process.start()
        self._sender.close()  # the process has its own, so that its end is seen here
        self._listener.start()
        return self

    def stop(self) -> None:
        """Ask it to stop; it may take a moment to save."""
        self._process.terminate()

    def join(self) -> None:
        """Wait until it has ended."""
        self._process.join()
        self._listener.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.join()

    @property
    def pid(self) -> int | None:
        """The process's number."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended, once it has."""
        return self._process.exitcode

    def result(self) -> Value:
        """Wait for what the function gives back; what it raises is raised here."""
        self.join()
        if not self._said:
            raise SparsembleError(
                f"a process of its own ended with code {self.exit_code}; the same command again "
                "goes on where it stopped"
            )
        [outcome] = self._said
        if isinstance(outcome, BaseException):
            raise outcome
        value: Value = outcome
        return value

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # it ended, or was killed in mid-sentence
            while True:
                line, outcome = self._receiver.recv()
                if line is None:
                    self._said.append(outcome)
                else:
                    self._relay(line)

    def _relay(self, line: str) -> None:
        """Print a line; if nobody can read it, go on listening without."""
        if self._console is not None:
            try:
                self._console.print(line, markup=False)
            except (Exception, SystemExit):  # a broken pipe is the latter to rich
                self._console = None


def first_done(workers: Iterable[Worker[Value]]) -> list[Worker[Value]]:
    """Wait until some of them have ended; these."""
    by_sentinel: dict[Any, Worker[Value]] = {w._process.sentinel: w for w in workers}
    return [by_sentinel[done] for done in connection.wait(list(by_sentinel))]


def _work(
    sender: Connection, threads: int, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """What the process does."""
    import torch

    threading.Thread(target=_stop_with_starter, daemon=True).start()
    torch.set_flush_denormal(True)
    torch.set_num_threads(threads)
    lines = Console(
        file=_Lines(sender), highlight=False, markup=False, soft_wrap=True, force_terminal=False
    )
    try:
        outcome = function(lines, *arguments)
    except KeyboardInterrupt:
        sys.exit(_STOPPED)
    except (SparsembleError, OSError) as error:
        outcome = error
    except Exception as error:
        traceback.print_exc()
        outcome = SparsembleError(f"{type(error).__name__}: {error}")
    sender.send((None, outcome))


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _stop_with_starter() -> None:
    starter = multiprocessing.parent_process()
    assert starter is not None
    starter.join()
    os.kill(os.getpid(), signal.SIGTERM)


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
                self._sender.send((line, None))
        return len(text)
