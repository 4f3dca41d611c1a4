"""Modes of the caller's that must not change an answer: PyTorch's, of the thread and the process.

Autocast, gradients switched off, inference mode and another default device hold for one thread;
another default dtype and the detection of anomalies (which turns a divergence into an error) for
the whole process. What is learned and predicted must not depend on them: the same call in a worker,
or tomorrow, would give other bits. The choice of arithmetic (threads, deterministic algorithms, the
precision of products) is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import torch

from sparsemble.devices import accelerator

P = ParamSpec("P")
R = TypeVar("R")


class OwnModes:
    """Compute in the modes that PyTorch begins with, and give the caller's back.

    A prediction of one example takes little longer than to ask for the modes, so nothing is changed
    that need not be.
    """

    def __enter__(self) -> None:
        _PROCESS.take()
        self._changed: ExitStack | None = None
        try:
            if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
                self._change(torch.inference_mode(False))
                self._change(torch.enable_grad())
            for device in ("cpu", accelerator()):
                if device is not None and torch.is_autocast_enabled(device):
                    self._change(torch.autocast(device, enabled=False))
            if not torch.empty(0).is_cpu:
                self._change(torch.device("cpu"))
        except BaseException:
            self.__exit__()
            raise

    def _change(self, mode: AbstractContextManager[Any]) -> None:
        self._changed = self._changed or ExitStack()
        self._changed.enter_context(mode)

    def __exit__(self, *raised: object) -> None:
        try:
            if self._changed is not None:
                self._changed.close()
        finally:
            _PROCESS.give_back()


def in_own_modes(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, computed in them whatever its caller's are."""

    @wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> R:
        with OwnModes():
            return function(*arguments, **named)

    return called


class _Process:
    """Modes of the process: the first thread that needs its own sets them, the last gives back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._theirs = (torch.float32, False)

    def take(self) -> None:
        """Be as PyTorch begins until everyone has given back."""
        with self._lock:
            if self._users == 0:
                self._theirs = (torch.get_default_dtype(), torch.is_anomaly_enabled())
                _set_process(torch.float32, False)
            self._users += 1

    def give_back(self) -> None:
        """One user fewer."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _set_process(*self._theirs)


def _set_process(dtype: torch.dtype, anomalies: bool) -> None:
    if torch.get_default_dtype() != dtype:
        torch.set_default_dtype(dtype)
    if torch.is_anomaly_enabled() != anomalies:
        torch.autograd.set_detect_anomaly(anomalies, torch.is_anomaly_check_nan_enabled())


_PROCESS = _Process()
