"""How good the running ensemble is while it grows: measured with every sample and every member."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torch import Tensor

from sparsemble.members import Member
from sparsemble.runs.looks import Look
from sparsemble.stages import Rollback, Sample, SampleRecord


class Meter:
    """Measures a stage's networks one by one and together; without a look it measures nothing.

    `members` says which members a sample stands for: one, or all that were retrained as a stack.
    """

    def __init__(
        self, stage: str, look: Look | None, members: Callable[[Sample], Sequence[Member]]
    ) -> None:
        self._stage = stage
        self._look = look
        self._members = members
        self._known: list[tuple[Sample, Tensor]] = []

    def measure(self, sample: Sample) -> Iterator[SampleRecord]:
        """Take a sample's members in, and say how the ensemble does with each."""
        if self._look is None:
            return
        for member in self._members(sample):
            own = self._look.predictions(member)
            self._known.append((sample, own))
            yield SampleRecord(
                stage=self._stage,
                chain=sample.chain,
                step=sample.step,
                members=len(self._known),
                metric=self._look.metric,
                on=self._look.on,
                alone=self._look.figure([own]),
                together=self._look.figure([predictions for _, predictions in self._known]),
            )

    def undo(self, rollback: Rollback) -> None:
        """Forget samples of a stretch that was thrown away."""
        self._known = [
            (sample, predictions)
            for sample, predictions in self._known
            if sample.chain != rollback.chain or sample.step <= rollback.back_to
        ]
