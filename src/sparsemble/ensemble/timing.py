"""How long predictions take, one ensemble beside another."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.tasks import Evaluation

_REPEATS = 15
_BATCHES = (1, 1000)


def prediction_times(
    own: Ensemble, other: Ensemble, held: Evaluation, sizes: Sequence[int] = _BATCHES
) -> dict[int, float]:
    """The time that predicting takes, as a multiple of the other's, by the size of a batch.

    Both take turns, and the shortest times are compared: what else the machine does cannot shorten
    them.
    """
    inputs, _ = next(iter(held.batches()))
    ratios = {}
    for size in sizes:
        batch = inputs[:size]
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(_REPEATS):
            for ensemble, known in zip((own, other), times, strict=True):
                began = time.perf_counter()
                ensemble(batch).cpu()  # which waits for other devices
                known.append(time.perf_counter() - began)
        mine, theirs = map(min, times)
        ratios[len(batch)] = mine / theirs
    return ratios
