"""Where and how to compute: devices, checked where the user says them, formats and threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from sparsemble.errors import InputError, shortened

Autocast = bool | Literal["auto"]
"""Whether a network is computed in bfloat16; `auto` is where the device multiplies in it."""
MOST_THREADS = max(1024, os.cpu_count() or 1)
"""As many as PyTorch can start; more than this machine has processors are slow, not wrong."""


def usable_device(device: str | torch.device) -> torch.device:
    """The device, if numbers can be put there and read back.

    >>> usable_device("cpu")
    device(type='cpu')
    """
    found = named_device(device)
    try:
        torch.zeros(1, device=found).item()
    except Exception as error:  # what is missing decides what PyTorch raises
        raise _unusable(device, error) from None
    return found


def named_device(device: str | torch.device) -> torch.device:
    """The device of a name, wherever there may be one."""
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise _unusable(device, error) from None


def _unusable(device: str | torch.device, error: Exception) -> InputError:
    why = shortened(str(error).partition("\n")[0])
    return InputError(
        f"device = {shortened(repr(str(device)))} cannot be used: {why}; name another, as cpu or "
        "cuda:1"
    )


def accelerator() -> str | None:
    """What kind of device this machine computes with besides its CPU, if any."""
    if not torch.accelerator.is_available():
        return None
    found = torch.accelerator.current_accelerator()
    return None if found is None else found.type


def in_bfloat16(asked: Autocast, device: torch.device) -> bool:
    """Is that asked for on this device?"""
    return has_bfloat16(device.type) if asked == "auto" else asked


@cache
def has_bfloat16(device: str = "cpu") -> bool:
    """Does this kind of device multiply in bfloat16, without going by other formats?"""
    if device == "cpu":
        return torch.backends.mkldnn.is_available() and (
            torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        )
    return device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


@dataclass(frozen=True)
class Manner:
    """How a process computes, as far as bits depend on it."""

    threads: int
    flushes: bool
    """Are denormal floats taken for zero?"""

    @classmethod
    def here(cls, threads: int | None = None) -> Manner:
        """That of this process; but for the threads, if those are said."""
        return cls(threads or torch.get_num_threads(), denormals_are_flushed())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Compute in this way for a while."""
        with flushing(denormals=self.flushes), with_threads(self.threads):
            yield


def denormals_are_flushed() -> bool:
    """Are they, in this thread?"""
    tiny = torch.finfo(torch.float32).tiny
    return float(torch.tensor(tiny, dtype=torch.float32, device="cpu") / 2) == 0


@contextmanager
def flushing(*, denormals: bool = True) -> Iterator[None]:
    """Take denormal floats for zero for a while, or do not.

    That holds for this thread and those it starts; the command line asks for it before there are
    any.
    """
    before = denormals_are_flushed()
    torch.set_flush_denormal(denormals)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Compute with so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
