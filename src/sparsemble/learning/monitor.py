"""How good the running ensemble is while it grows: measured with every sample and every member.

It is measured on what the training data offer to watch: validation data, or else training data.
Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.members import Member
from sparsemble.runs.stage_folder import StageFolder
from sparsemble.stages import Callback, ChainState, Rollback, Sample, SampleRecord
from sparsemble.tasks import Evaluation, Task
from sparsemble.tasks.scoring import figures_of


class Monitor(Callback):
    """Measures a stage's networks one by one and together; without data it measures nothing.

    Args:
        stage: Which one.
        task: What the networks predict.
        watched: What they are measured on.
        members: Says which members a sample stands for: one, or all that were retrained together.
        callback: Told of every record.
        folder: Where records are kept.
    """

    def __init__(
        self,
        stage: str,
        task: Task,
        watched: Evaluation | None,
        members: Callable[[Sample], Sequence[Member]],
        *,
        callback: Callback,
        folder: StageFolder | None,
    ) -> None:
        self._stage = stage
        self._task = task
        self._watched = watched
        self._members = members
        self._callback = callback
        self._folder = folder
        self._known: list[tuple[SampleRecord, Tensor]] = []

    @property
    def records(self) -> list[SampleRecord]:
        """What was measured, in order."""
        return [record for record, _ in self._known]

    def sampled(self, sample: Sample, save: Callable[[], ChainState]) -> None:
        """Measure it."""
        self.measure(sample)

    def recalled(self, sample: Sample) -> None:
        """Measure it again, for what comes after it."""
        self.measure(sample)

    def measure(self, sample: Sample) -> None:
        """Take a sample's members in, and say how the ensemble does with each."""
        if self._watched is None:
            return
        for member in self._members(sample):
            own, targets = evidence_of(Ensemble([member], self._task), self._watched)
            record = self._record(sample, own, targets, self._watched)
            self._known.append((record, own))
            self._callback.measured(record)
        if self._folder is not None:
            self._folder.save_measured(self.records)

    def _record(
        self, sample: Sample, own: Tensor, targets: Tensor, watched: Evaluation
    ) -> SampleRecord:
        metric = self._task.metrics[0].key
        all_of_them = torch.cat([*(evidence for _, evidence in self._known), own])
        together = figures_of(self._task, all_of_them, targets)
        chosen_by = together
        if watched.weights is not None:
            chosen_by = figures_of(self._task, all_of_them, targets, watched.weights)
        return SampleRecord(
            stage=self._stage,
            chain=sample.chain,
            step=sample.step,
            members=len(self._known) + 1,
            metric=metric,
            on=watched.name,
            alone=figures_of(self._task, own, targets)[metric],
            together=together[metric],
            log_score=chosen_by.get(self._task.log_score),
        )

    def rolled_back(self, rollback: Rollback, save: Callable[[], ChainState]) -> None:
        """Forget samples of a stretch that was thrown away."""
        self._known = [known for known in self._known if not rollback.undoes(known[0])]
        if self._folder is not None:
            self._folder.save_measured(self.records, rollback.chain)
