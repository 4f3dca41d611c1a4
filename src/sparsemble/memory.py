"""Memory: what this machine has, and refusals of what could never fit.

A size that was mistyped, or a file that was tampered with, would else take all memory before
anything is said, or have the process killed.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from torch import nn

from sparsemble.errors import InputError

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def check_memory(needed: int, what: str) -> None:
    """Raise `InputError` if something needs more bytes than there are.

    >>> check_memory(10**18, "the network")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sparsemble.errors.InputError: the network would take 1,000,000,000,000,000,000 bytes, and ...
    """
    if needed > machine_memory():
        raise InputError(
            f"{what} would take {needed:,} bytes, and this machine has {machine_memory():,}: make "
            "it smaller"
        )


def bytes_of(network: nn.Module) -> int:
    """What parameters and buffers take, also of a network that has no memory for them yet."""
    return sum(t.numel() * t.element_size() for t in (*network.parameters(), *network.buffers()))


@cache
def machine_memory() -> int:
    """Bytes that processes of this machine, or container, have altogether."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(_CONTAINER.read_text(encoding="utf-8")))
    except (OSError, ValueError):  # no container, or one without a limit
        return whole
