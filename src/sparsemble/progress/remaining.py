"""How fast something goes, and how long the rest will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_WINDOW = 60.0
"""Seconds that the speed is taken over: long enough to be calm, short enough to notice a change."""


class Speed:
    """Steps per second over the last minute."""

    def __init__(self, done: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks = deque([(clock(), done)])

    def mark(self, done: int) -> None:
        """So much is done now; going back, as after a divergence, begins anew."""
        now = self._clock()
        if done < self._marks[-1][1]:
            self._marks.clear()
        self._marks.append((now, done))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _WINDOW:
            self._marks.popleft()

    @property
    def per_second(self) -> float:
        """Steps per second; 0 while nothing is known."""
        (began, before), (now, done) = self._marks[0], self._marks[-1]
        return (done - before) / (now - began) if now > began else 0.0

    def left(self, total: int) -> float | None:
        """Seconds until `total` steps are done."""
        return (total - self._marks[-1][1]) / self.per_second if self.per_second > 0 else None
