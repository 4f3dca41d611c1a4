"""How good the running ensemble is while it grows: measured with every sample and every member.

It is measured on what the training data offer to watch: validation data, or else training data.
Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.members import Member
from sparsemble.stages import Rollback, Sample, SampleRecord
from sparsemble.tasks import Evaluation, Task
from sparsemble.tasks.scoring import figures_of


class Monitor:
    """Measures a stage's networks one by one and together; without data it measures nothing.

    Args:
        stage: Which one.
        task: What the networks predict.
        held: What they are measured on.
        members: Says which members a sample stands for: one, or all that were retrained together.
    """

    def __init__(
        self,
        stage: str,
        task: Task,
        held: Evaluation | None,
        members: Callable[[Sample], Sequence[Member]],
    ) -> None:
        self._stage = stage
        self._task = task
        self._held = held
        self._members = members
        self._known: list[tuple[Sample, Tensor]] = []

    def measure(self, sample: Sample) -> Iterator[SampleRecord]:
        """Take a sample's members in, and say how the ensemble does with each."""
        if self._held is None:
            return
        metric = self._task.metrics[0].key
        for member in self._members(sample):
            own, targets = evidence_of(Ensemble([member], self._task), self._held)
            self._known.append((sample, own))
            together = torch.cat([evidence for _, evidence in self._known])
            yield SampleRecord(
                stage=self._stage,
                chain=sample.chain,
                step=sample.step,
                members=len(self._known),
                metric=metric,
                on=self._held.name,
                alone=figures_of(self._task, own, targets)[metric],
                together=figures_of(self._task, together, targets)[metric],
            )

    def undo(self, rollback: Rollback) -> None:
        """Forget samples of a stretch that was thrown away."""
        self._known = [
            (sample, evidence)
            for sample, evidence in self._known
            if sample.chain != rollback.chain or sample.step <= rollback.back_to
        ]
