"""Stage 2 for samples of a loop of the user's: pruned, compact, retrained, one ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparsemble.caller_modes import in_own_modes
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.learning.rehearsal import rehearse
from sparsemble.loops.collector import Collector
from sparsemble.loops.laid_out import LaidOut
from sparsemble.members import Member
from sparsemble.priors import NoPrior, Prior
from sparsemble.programs import Program
from sparsemble.stages import PruneSettings, RetrainSettings, Sample
from sparsemble.stages import retrain as retrain_members
from sparsemble.stages.pruning import pruned
from sparsemble.stages.statistics import re_estimate
from sparsemble.tasks import Task, Training, task_for

_AT_ONCE = 100
"""Examples by which statistics are estimated, if nothing else says how many a batch has."""


@in_own_modes
def assemble(
    collector: Collector,
    data: Any,
    *,
    prune: PruneSettings | None = None,
    retrain: RetrainSettings | None = None,
    prior: Prior | None = None,
    task: Task | None = None,
    num_data: int | None = None,
    seed: int = 0,
) -> Ensemble:
    """Prune a collector's samples, make them compact and, if asked, retrain them.

    Statistics of normalisations are estimated anew for every member. Without `retrain` members can
    be trained further in any loop (`retraining`); the ensemble predicts by what they then are.

    Args:
        collector: Has the samples.
        data: What the loop learns from, as `learn` takes them: a pair of arrays, a `Dataset`, a
            `DataLoader`. A `Dataset`'s scaling becomes the ensemble's, which takes raw inputs.
        prune: How much of every sample goes; nothing by default.
        retrain: How long members are retrained, and at which rate; not at all by default.
        prior: That of the loop; in retraining it acts on what is left.
        task: What is predicted; by default what data of such a kind are for.
        num_data: The number of examples, where a loader does not know it.
        seed: Of the order of data and of dropout in retraining.
    """
    if not collector.samples:
        raise InputError(
            f"the collector has no samples after {collector.steps} steps: let the loop run longer, "
            "or shorten burn_in and interval"
        )
    if prune is not None and prune.steps > 1 and retrain is None:
        raise InputError(
            f"prune.steps = {prune.steps} trains members between the rounds: say how (retrain)"
        )
    laid_out = collector.laid_out
    training = _training(laid_out, data, task, num_data, seed)
    stage = _SecondStage(laid_out, collector.samples, training, prior or NoPrior(), retrain, seed)
    members = stage.pruned(prune)
    if retrain is not None:
        stage.train(members, retrain, "retrain")
    return Ensemble(members, training.task)


def _training(
    laid_out: LaidOut, data: Any, task: Task | None, num_data: int | None, seed: int
) -> Training:
    """The data, checked, and the task with what they and the network say."""

    def training_for(task: Task) -> Training:
        return task.training(
            data,
            seed=seed,
            outputs=laid_out.layout.outputs.size,
            num_data=num_data,
            dtype=next(laid_out.blank.parameters()).dtype,
        )

    task = task or task_for(data)
    if isinstance(laid_out.blank, Program):
        task = task.for_network(laid_out.blank, training_for(task))
    training = training_for(task)
    rehearse(training, laid_out.blank)
    return training


@dataclass(frozen=True)
class _SecondStage:
    """What members are made by."""

    laid_out: LaidOut
    samples: Sequence[Sample]
    training: Training
    prior: Prior
    retrain: RetrainSettings | None
    seed: int

    def pruned(self, how: PruneSettings | None) -> list[Member]:
        """The samples without what goes; to a budget round by round, trained a little between."""
        if how is None:
            return self._dense()

        def train(members: Sequence[Member], stage: str) -> None:
            assert self.retrain is not None, "checked before"
            self.train(members, self.retrain.model_copy(update={"epochs": how.between}), stage)

        return pruned(self._dense(), how, settle=self._settled, train=train)

    def train(self, members: Sequence[Member], how: RetrainSettings, stage: str) -> None:
        """Retrain members, in place."""
        retrain_members(
            members,
            self.training.task,
            self.training.batches(how.batch_size),
            self.prior,
            how,
            samples=self._dense() if how.taught else (),
            stage=stage,
            seed=self.seed,
        )

    def _dense(self) -> list[Member]:
        """The samples as they are."""
        return [self._settled(self.laid_out.dense(sample)) for sample in self.samples]

    def _settled(self, member: Member) -> Member:
        """A member with statistics of its own, where the network is."""
        size = _AT_ONCE if self.retrain is None else self.retrain.batch_size
        device = next(self.laid_out.network.parameters()).device
        return re_estimate(member.to(device), self.training.task, self.training.batches(size))
