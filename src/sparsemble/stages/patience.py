"""When a chain is long enough: once its samples stop getting better on validation data.

Small data are learned by heart in the end, however much is averaged; large ones are not. What is
decided follows from the samples alone, so a resumed chain ends where an uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from sparsemble.errors import InputError
from sparsemble.stages.samples import Sample


class Patience:
    """Judges the samples of a chain, each once.

    Args:
        samples: How many in a row may be no better than the best before; without a number chains
            run to their end.
        judge: How good a sample is, lower being better.
    """

    def __init__(self, samples: int | None, judge: Callable[[Sample], float] | None) -> None:
        if samples is not None and judge is None:
            raise InputError(f"patience = {samples} needs validation data to judge samples on")
        self._allowed = samples
        self._judge = judge
        # With the sample, so that its identity is not given to another one.
        self._known: dict[int, tuple[Sample, float]] = {}

    def is_exhausted(self, samples: Sequence[Sample]) -> bool:
        """Has a chain gone on for long enough without a better sample?"""
        if self._allowed is None:
            return False
        own = sorted(samples, key=lambda sample: sample.step)
        return count_kept(map(self._figure, own), self._allowed) < len(own)

    def without_the_worse(self, samples: Sequence[Sample]) -> list[Sample]:
        """A chain's samples less those that came after the best, if they decided its end."""
        if self._allowed is None:
            return list(samples)
        return list(samples[: count_kept(map(self._figure, samples), self._allowed)])

    def _figure(self, sample: Sample) -> float:
        assert self._judge is not None
        if id(sample) not in self._known:
            self._known[id(sample)] = (sample, self._judge(sample))
        return self._known[id(sample)][1]


def count_kept(figures: Iterable[float], patience: int) -> int:
    """Of a chain's samples all, or if its end was decided by patience those up to the best.

    Args:
        figures: How good they are, in their order, lower being better.
        patience: How many in a row may be no better.

    >>> count_kept([3.0, 1.0, 2.0, 2.5], patience=2), count_kept([3.0, 1.0, 2.0], patience=2)
    (2, 3)
    """
    known = [math.inf if math.isnan(figure) else figure for figure in figures]
    best = known.index(min(known)) if known else 0
    return best + 1 if len(known) - 1 - best >= patience else len(known)
