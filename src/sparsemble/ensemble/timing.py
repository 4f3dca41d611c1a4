"""How long predictions take, one ensemble beside another."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.tasks import Evaluation

_REPEATS = 15
_BATCHES = (1, 1000)


def prediction_times(
    own: Ensemble,
    other: Ensemble,
    held: Evaluation,
    theirs: Evaluation | None = None,
    sizes: Sequence[int] = _BATCHES,
) -> dict[int, float]:
    """The time that predicting takes, as a multiple of the other's, by the size of a batch.

    Both take turns, and the shortest times are compared: what else the machine does cannot shorten
    them.

    Args:
        own: The ensemble in question.
        other: What it is compared with.
        held: Examples as the one reads them.
        theirs: The same as the other does, if its inputs are arranged otherwise.
        sizes: How many examples at a time.
    """
    inputs = [next(iter(part.batches()))[0] for part in (held, theirs or held)]
    ratios = {}
    for size in sizes:
        batches = [some[:size] for some in inputs]
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(_REPEATS):
            for ensemble, batch, known in zip((own, other), batches, times, strict=True):
                began = time.perf_counter()
                ensemble(batch).cpu()  # which waits for other devices
                known.append(time.perf_counter() - began)
        shortest, beside = map(min, times)
        ratios[len(batches[0])] = shortest / beside
    return ratios
