"""Divergence: a chain at a high constant rate can leave for good; this notices.

A chain has diverged when its loss is not finite, or when the smoothed loss has risen above its
best by more than `rise` times the loss of guessing (every class equally probable). One step counts
as at most twice that loss: at a high rate single bad steps happen, and pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparsemble.settings import Factor, Positive, Settings

_SMOOTHING = 0.01


class DivergenceSettings(Settings):
    """When a chain counts as diverged, and what is done about it."""

    rise: Positive = 0.2
    """How far the loss may rise, as a share of that of guessing."""
    max_rollbacks: Annotated[int, Field(ge=0, le=1_000_000)] = 5
    """Divergences that are undone before giving up."""
    slow_down: Factor = 1.25
    """The learning rate is divided by this after every rollback."""


@dataclass
class DivergenceWatch:
    """The loss, smoothed, and how far it stands above its best."""

    settings: DivergenceSettings
    guessing: float
    smoothed: float | None = None
    best: float = math.inf

    def reason(self, loss: float) -> str | None:
        """Take one step's loss; say why the chain has diverged, or `None`."""
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if self.smoothed is None:
            self.smoothed = min(loss, 2 * self.guessing)
        self.smoothed += _SMOOTHING * (min(loss, 2 * self.guessing) - self.smoothed)
        self.best = min(self.best, self.smoothed)
        if self.smoothed > self.best + self.settings.rise * self.guessing:
            return f"the smoothed loss rose from {self.best:.4g} to {self.smoothed:.4g}"
        return None

    @property
    def calm(self) -> bool:
        """Is this a state worth going back to?"""
        if self.smoothed is None:
            return True
        return self.smoothed <= self.best + self.settings.rise * self.guessing / 4

    def numbers(self) -> dict[str, float | None]:
        """What a checkpoint keeps."""
        best = self.best if math.isfinite(self.best) else None
        return {"smoothed": self.smoothed, "best": best}

    def restore(self, numbers: dict[str, float | None]) -> None:
        """Go on from `numbers()`."""
        self.smoothed = numbers["smoothed"]
        best = numbers["best"]
        self.best = math.inf if best is None else best
