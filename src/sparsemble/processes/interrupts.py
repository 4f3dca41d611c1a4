"""Interrupts: a signal asks a run to stop after the step under way, once its state is saved.

A second interrupt from the keyboard stops it at once. Signals can only be caught in the main
thread; elsewhere, and without a folder to save into, they keep their usual meaning.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Protocol

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop(Protocol):
    """Says whether a run was asked to stop."""

    @property
    def stop_requested(self) -> bool:
        """Was it?"""
        ...


class StopRequest:
    """Whether a signal has asked the run to stop."""

    def __init__(self) -> None:
        self.stop_requested = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stop_requested = True


_ASKED: ContextVar[Stop | None] = ContextVar("asked", default=None)


@contextmanager
def asked_by(stop: Stop) -> Iterator[None]:
    """Let somebody else ask runs in this block to stop, in the place of signals."""
    before = _ASKED.set(stop)
    try:
        yield
    finally:
        _ASKED.reset(before)


@contextmanager
def stop_requests(*, catch: bool) -> Iterator[Stop]:
    """Turn interrupts into a request while the block runs."""
    asked = _ASKED.get()
    if asked is not None:
        yield asked
        return
    request = StopRequest()
    if not catch or threading.current_thread() is not threading.main_thread():
        yield request
        return
    # A process started in the background ignores interrupts, and should go on doing so.
    caught = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, request._receive) for number in caught}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if request.stop_requested:  # after the last step: the block is done, its caller is not
        raise KeyboardInterrupt
