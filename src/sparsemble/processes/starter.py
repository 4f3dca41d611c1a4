"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import threading
import time

STARTER = "SPARSEMBLE_STARTED_BY"
"""Names, in the environment of a process, the one that started it."""
_LOOK_EVERY = 1.0


def stop_with_starter() -> None:
    """Ask this process to end, with everything saved, when the one that started it is gone."""
    starter = int(os.environ[STARTER])
    threading.Thread(target=_stop_without, args=(starter,), daemon=True).start()


def _stop_without(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(_LOOK_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)
