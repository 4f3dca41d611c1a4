"""Where the cycles of a learning rate end, whatever makes it rise and fall."""

from __future__ import annotations


class CycleWatch:
    """Follows a learning rate: a cycle ends where it rises after it has fallen.

    >>> watch = CycleWatch()
    >>> [watch.has_ended(lr) for lr in (0.1, 0.3, 0.2, 0.1, 0.3, 0.3, 0.1, 0.2)]
    [False, False, False, False, True, False, False, True]
    """

    def __init__(self, lr: float | None = None, falling: bool = False) -> None:
        self.lr = lr
        self.falling = falling

    def has_ended(self, lr: float) -> bool:
        """Has a cycle ended before a step at this rate?"""
        before, self.lr = self.lr, lr
        if before is None or lr == before:
            return False
        ended = self.falling and lr > before
        self.falling = lr < before
        return ended
