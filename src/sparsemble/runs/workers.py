"""Worker processes: when the process that started them ends, however it ends, they stop as well."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess

SPAWN = multiprocessing.get_context("spawn")
"""How workers are started: a fork would copy PyTorch's threads half."""


def begin_worker(threads: int = 1) -> None:
    """What a worker does first."""
    import torch

    torch.set_flush_denormal(True)
    torch.set_num_threads(threads)
    threading.Thread(target=_stop_with_starter, daemon=True).start()


def starter() -> BaseProcess:
    """The process that started this worker."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # only workers ask
    return parent


def _stop_with_starter() -> None:
    starter().join()
    os.kill(os.getpid(), signal.SIGTERM)
