"""Jobs that do next to nothing, each in its own way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sparsemble.errors import DivergedError


def add(common, task, line):
    line.tell(("adding", task))
    return common + task


def fail_at_two(common, task, line):
    if task == 2:
        raise DivergedError("two is too many")
    return wait_for_word(common, task, line)


def break_down(common, task, line):
    raise ZeroDivisionError("what nobody expects")


def come_too_late(common, task, line):
    raise TimeoutError("which is no fault of the cluster")


def wait_for_word(common, task, line):
    line.tell(("waiting", task))
    for _ in range(60_000):  # not for ever: the limit is for what hangs
        if line.stop_requested:
            return "stopped"
        time.sleep(0.01)
    raise TimeoutError("nobody asked to stop")


def is_asked(common, task, line):
    return line.stop_requested


def is_asked_soon(common, task, line):
    for _ in range(60_000):
        if line.stop_requested:
            return True
        time.sleep(0.01)
    return False


def die_at_first(folder, task, line):
    """Ends its process like one that is out of memory, twice, and then gives an answer."""
    for number in range(2):
        mark = Path(folder) / f"{task}-{number}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return task


def always_die(common, task, line):
    os.kill(os.getpid(), signal.SIGKILL)
