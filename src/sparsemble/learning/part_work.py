"""What the stages of a run have in common: parts that can be worked on one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sparsemble.stages import Callback, ChainState, Sample


class PartWork(Protocol):
    """A stage made ready, each of its parts a piece of work of its own."""

    @property
    def parts(self) -> int:
        """How many there are."""
        ...

    def is_done(self, collected: Sequence[Sample]) -> bool:
        """Is nothing left to do for a part that has given so much?"""
        ...

    def run(
        self,
        number: int,
        callback: Callback | None = None,
        collected: Sequence[Sample] = (),
        resume: ChainState | None = None,
    ) -> list[Sample]:
        """Bring a part to its end."""
        ...
