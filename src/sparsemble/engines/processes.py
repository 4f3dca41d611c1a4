"""Jobs in processes of this machine, kept for the next job once they have started.

The processes are fresh interpreters, not copies of this one, so that neither its threads nor its
random numbers matter; jobs and results travel over a pair of sockets.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from sparsemble.engines.engine import Batch, Engine
from sparsemble.engines.sending import STOP, packed, unpacked
from sparsemble.errors import InputError, SparsembleError
from sparsemble.processes.starter import STARTER

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from sparsemble.engines.child import main; main()"
)
_LOOK_EVERY = 0.2
_SAVING = 60.0
"""Seconds that jobs get to save when they are to stop."""
_DEATHS = 3
"""How often a job may kill its process before it is given up."""


class Processes(Engine):
    """So many processes at a time, with one thread each."""

    is_here = True

    def __init__(self, count: int) -> None:
        if count < 1:
            raise InputError(f"jobs = {count}: give a number of processes, 1 or more")
        self._count = count
        self._free = threading.Semaphore(count)
        self._idle: list[_Process] = []

    @property
    def size(self) -> int:
        """The processes."""
        return self._count

    def begun(self, shared: bytes, tasks: Sequence[Any]) -> _Batch:
        """Jobs that begin as soon as there are processes for them."""
        return _Batch(self, shared, [packed(task) for task in tasks])

    def take(self) -> _Process | None:
        """A process that has nothing to do, if there may be one."""
        if not self._free.acquire(blocking=False):
            return None
        try:
            return self._idle.pop()
        except IndexError:  # other threads take some, too
            pass
        try:
            return _Process()
        except BaseException:
            self._free.release()
            raise

    def give_back(self, process: _Process) -> None:
        """It has nothing to do any more."""
        self._idle.append(process)
        self._free.release()

    def free(self) -> None:
        """A process is gone: there may be another."""
        self._free.release()

    def close(self) -> None:
        """End all of them."""
        while self._idle:
            self._idle.pop().end()


class _Process:
    """A fresh interpreter that does one job after the other."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self.connection = Connection(here.detach())
        with there:
            self._process = subprocess.Popen(
                # Not by -m, which would import from the folder the command is run in.
                [sys.executable, "-P", "-c", _CHILD, str(there.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                env=_environment(),
                # Interrupts at the terminal are left to the starter.
                start_new_session=True,
            )
        self.common: bytes | None = None

    def do(self, common: bytes, task: bytes) -> None:
        """Begin a job; what is common is only sent if it is new."""
        self.connection.send_bytes(b"" if common is self.common else common)
        self.connection.send_bytes(task)
        self.common = common

    def ask_to_stop(self) -> None:
        """Say it where jobs are said: a signal could reach the next job, or the last one."""
        with suppress(OSError):
            self.connection.send_bytes(STOP)

    def kill(self) -> None:
        """Do not wait for it."""
        self._process.kill()
        self.end()

    def end(self) -> str:
        """Wait until it is gone; how that came about."""
        self.connection.close()
        code = self._process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def _environment() -> dict[str, str]:
    """This process's, but for what would make the other one part of a torchrun."""
    own = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**own, STARTER: str(os.getpid())}


class _Batch(Batch):
    """Tasks that wait, and those under way."""

    def __init__(self, engine: Processes, common: bytes, tasks: Sequence[bytes]) -> None:
        self._engine = engine
        self._common = common
        self._tasks = tasks
        self._waiting = deque(range(len(tasks)))
        self._busy: dict[Connection, tuple[int, _Process]] = {}
        self._ended: list[tuple[int, str, Any]] = []
        self._deaths = [0] * len(tasks)

    @property
    def is_left(self) -> bool:
        """Is there anything left to do?"""
        return bool(self._waiting or self._busy or self._ended)

    def heard(self) -> Iterator[tuple[int, Any]]:
        """What processes tell, after each that can has been given a task."""
        self._begin()
        for connection in wait(list(self._busy), _LOOK_EVERY):
            assert isinstance(connection, Connection)
            number, process = self._busy[connection]
            try:
                kind, content = unpacked(connection.recv_bytes())
            except (EOFError, ConnectionError):
                self._died(connection)
                continue
            if kind == "told":
                yield number, content
            else:
                del self._busy[connection]
                self._engine.give_back(process)
                self._ended.append((number, kind, content))

    def _begin(self) -> None:
        """Give tasks to processes as long as there are both."""
        while self._waiting and (process := self._engine.take()) is not None:
            number = self._waiting.popleft()
            self._busy[process.connection] = number, process
            try:
                process.do(self._common, self._tasks[number])
            except (BrokenPipeError, ConnectionError):
                self._died(process.connection)

    def done(self) -> Iterator[tuple[int, Any]]:
        """What came of those that have ended."""
        while self._ended:
            number, kind, content = self._ended.pop(0)
            if kind == "raised":
                raise content
            yield number, content

    def ask_to_stop(self, number: int) -> None:
        """By a word to its process."""
        for own, process in self._busy.values():
            if own == number:
                process.ask_to_stop()

    def _died(self, connection: Connection) -> None:
        """Run the job again that a process was killed in."""
        number, process = self._busy.pop(connection)
        how = process.end()
        self._engine.free()
        self._deaths[number] += 1
        if self._deaths[number] >= _DEATHS:
            why = "; out of memory? Fewer jobs take less" if how.startswith("signal") else ""
            raise SparsembleError(
                f"a job ended its process {_DEATHS} times ({how}{why}); the same command again "
                "goes on where it stopped"
            )
        self._waiting.appendleft(number)

    def __exit__(self, *exception: object) -> None:
        """Let jobs under way save and end, and keep their processes."""
        for _, process in self._busy.values():
            process.ask_to_stop()
        until = time.monotonic() + _SAVING
        for connection, (_, process) in self._busy.items():
            ended = False
            try:
                while not ended and connection.poll(max(until - time.monotonic(), 0)):
                    ended = unpacked(connection.recv_bytes())[0] != "told"
            except (EOFError, ConnectionError):
                pass
            finally:
                if ended:
                    self._engine.give_back(process)
                else:
                    process.kill()
                    self._engine.free()
