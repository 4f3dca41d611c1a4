"""How long predictions take, one ensemble beside another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.stopwatch import shortest_times
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
        mine, its = shortest_times(
            partial(own, batches[0]), partial(other, batches[1]), repeats=_REPEATS
        )
        ratios[len(batches[0])] = mine / its
    return ratios
