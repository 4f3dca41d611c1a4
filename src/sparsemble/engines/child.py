"""A process that does one job after the other, for the one that started it."""

from __future__ import annotations

import select
import signal
import sys
import traceback
from functools import lru_cache
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from sparsemble.engines.engine import Work
from sparsemble.engines.sending import STOP, packed, packed_error, unpacked
from sparsemble.errors import SparsembleError
from sparsemble.processes.starter import stop_with_starter


class _ToStarter:
    """The line to the process that started this one."""

    def __init__(self, connection: Connection) -> None:
        self.busy = False
        self.is_asked = False
        self._connection = connection

    @property
    def stop_requested(self) -> bool:
        """Was this job asked to stop? That is all that the starter says during a job."""
        self.is_asked = self.is_asked or self._connection.poll(0)
        return self.is_asked

    def tell(self, what: Any) -> None:
        """Send it, unless that would have to wait; without a starter it is time to stop."""
        try:
            if self._is_free():
                self._connection.send_bytes(packed(("told", what)))
        except OSError:
            self.is_asked = True

    def _is_free(self) -> bool:
        """Would sending not have to wait? `select` knows no descriptors above 1023."""
        writing = select.poll()
        writing.register(self._connection, select.POLLOUT)
        return any(event & select.POLLOUT for _, event in writing.poll(0))

    def receive(self, number: int, frame: FrameType | None) -> None:
        """A signal asks to stop, too."""
        self.is_asked = True
        if not self.busy:
            sys.exit(1)


@lru_cache(maxsize=1)
def _unpacked_once(job: bytes) -> tuple[Work[Any, Any, Any], Any]:
    work, common = unpacked(job)
    return work, common


def main() -> None:
    """Work until the starter hangs up."""
    connection = Connection(int(sys.argv[1]))
    line = _ToStarter(connection)
    signal.signal(signal.SIGTERM, line.receive)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_with_starter()
    try:
        job = b""
        while True:
            fresh = connection.recv_bytes()
            if fresh == STOP:  # a job that had ended when it was asked
                continue
            task = connection.recv_bytes()
            line.busy = True
            job = fresh or job
            connection.send_bytes(_answer(job, task, line))
            line.is_asked = line.busy = False
    except (EOFError, ConnectionError):
        return


def _answer(job: bytes, task: bytes, line: _ToStarter) -> bytes:
    """What comes of a job, as a message."""
    try:
        work, common = _unpacked_once(job)
        return packed(("done", work(common, unpacked(task), line)))
    except BaseException as error:
        if not isinstance(error, SparsembleError | KeyboardInterrupt):
            error.add_note(f"In a job's process:\n{traceback.format_exc()}")
        return packed_error(error)
