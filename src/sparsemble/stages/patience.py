"""When a chain is long enough: once its samples stop getting better on validation data.

Small data are learned by heart in the end, however much is averaged; large ones are not. What is
decided follows from the samples alone, so a resumed chain ends where an uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
        return bool(own) and len(own) - 1 - self._best(own) >= self._allowed

    def without_the_worse(self, samples: Sequence[Sample]) -> list[Sample]:
        """A chain's samples less those that came after the best, if they decided its end."""
        ended = self.is_exhausted(samples)
        return list(samples[: self._best(samples) + 1] if ended else samples)

    def _best(self, own: Sequence[Sample]) -> int:
        figures = [self._figure(sample) for sample in own]
        return figures.index(min(figures))

    def _figure(self, sample: Sample) -> float:
        assert self._judge is not None
        if id(sample) not in self._known:
            figure = self._judge(sample)
            self._known[id(sample)] = (sample, math.inf if math.isnan(figure) else figure)
        return self._known[id(sample)][1]
