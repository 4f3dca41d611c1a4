"""PyTorch's global random streams, lent to one thread at a time.

Dropout, augmentations, initial weights and data loaders take no generator of their own: they draw
from the global one, which all threads share. Whoever needs certain numbers of it borrows it: others
who would borrow it wait, and afterwards it is where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

LENT = RLock()
"""Held while the streams are lent; the same thread may borrow them again."""


@contextmanager
def borrowed_streams(seed: int | None = None) -> Iterator[None]:
    """The streams of all devices go on from a seed, if one is given, and then are as before."""
    devices = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
    with LENT, torch.random.fork_rng(devices):
        if seed is not None:
            torch.manual_seed(seed)
        yield
