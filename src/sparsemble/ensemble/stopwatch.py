"""Two computations timed beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import Tensor


def shortest_times(
    one: Callable[[], Tensor], other: Callable[[], Tensor], repeats: int
) -> tuple[float, float]:
    """The seconds that each takes at best: what else the machine does cannot shorten them.

    They take turns, so that both meet the same machine.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for call, known in zip((one, other), times, strict=True):
            began = time.perf_counter()
            call().cpu()  # which waits for other devices
            known.append(time.perf_counter() - began)
    return min(times[0]), min(times[1])
