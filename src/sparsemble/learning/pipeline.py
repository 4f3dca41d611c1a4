"""The stages of one run: draw samples, prune them, retrain the members.

Each stage is kept in the run's folder, if there is one, and measured while it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from sparsemble.engines import Engine
from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import log_score
from sparsemble.learning.fitting import Fitted
from sparsemble.learning.monitor import Monitor
from sparsemble.learning.part_work import PartWork
from sparsemble.learning.parts import Parts
from sparsemble.members import Member
from sparsemble.processes.interrupts import Stop
from sparsemble.recipes import Recipe
from sparsemble.runs import RunFolder, StageFolder
from sparsemble.stages import Callback, Drawing, History, Retraining, Sample
from sparsemble.stages.pruning import PruneSettings, pruned
from sparsemble.stages.statistics import re_estimate
from sparsemble.tasks import Evaluation
from sparsemble.team import Team


@dataclass(frozen=True)
class Judge:
    """Says how good a sample is by itself on validation data, lower being better."""

    fitted: Fitted
    data: Evaluation
    device: torch.device

    def __call__(self, sample: Sample) -> float:
        """How good it is."""
        alone = [self.fitted.dense(sample).to(self.device)]
        return log_score(Ensemble(alone, self.fitted.task), self.data)


@dataclass
class Pipeline:
    """One run's stages; `history` grows with them.

    `identity` is what the files of a stage after the chain depend on.
    """

    fitted: Fitted
    recipe: Recipe
    device: torch.device
    run: RunFolder | None
    watched: Evaluation | None
    callback: Callback
    stop: Stop
    identity: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine | None = None
    team: Team | None = None
    history: History = field(default_factory=History)

    def draw(self) -> list[Sample]:
        """Stage 1."""
        how, fitted = self.recipe.chain, self.fitted
        work = Drawing(
            fitted.network,
            fitted.layout,
            fitted.task,
            batches=fitted.training.batches(how.batch_size),
            prior=self.recipe.prior,
            settings=how,
            seed=self.recipe.seed,
            device=self.device,
            judge=self.judge() if how.patience is not None else None,
            team=self.team,
        )
        samples = self._finished("chain", work, lambda sample: [fitted.dense(sample)])
        for sample in samples:
            fitted.check(sample)
        return samples

    def members(self, samples: Sequence[Sample]) -> list[Member]:
        """Stage 2: one of every sample."""
        members = self.prune(samples)
        if self.recipe.retrain is not None:
            self.train(members, samples, "retrain")
        return members

    def judge(self) -> Judge | None:
        """Who says how good samples are, if there are validation data."""
        judged = self.fitted.training.judged()
        return None if judged is None else Judge(self.fitted, judged, self.device)

    def prune(self, samples: Sequence[Sample]) -> list[Member]:
        """Prune and compact every sample, or take it as it is."""
        how = self.recipe.prune
        if how is None:
            return [self.fitted.dense(sample).to(self.device) for sample in samples]
        members = self.prune_in_rounds(samples, samples, how)
        if self.run is not None:
            Ensemble(members, self.fitted.task).save(self.run.pruned)
        members = [member.to(self.device) for member in members]
        self.measure(members, samples, "pruned")
        return members

    def measure(self, members: Sequence[Member], samples: Sequence[Sample], stage: str) -> None:
        """How members do that nothing was trained for yet; only once, as all of them are known."""
        folder = None if self.run is None else self.run.stage(stage)
        known = [] if folder is None else folder.measured()
        if len(known) < len(members):
            own = {id(s): [member] for s, member in zip(samples, members, strict=True)}
            monitor = self._monitor(stage, lambda sample: own[id(sample)], folder)
            for sample in samples:
                monitor.measure(sample)
            known = monitor.records
        self.history += History(samples=known)

    def prune_in_rounds(
        self, means: Sequence[Sample], samples: Sequence[Sample], how: PruneSettings, name: str = ""
    ) -> list[Member]:
        """Members made of means to a budget, trained a little after each round but the last.

        Args:
            means: What is pruned.
            samples: Whose predictions are learned between the rounds, if the recipe says so.
            how: The budget, and the number of rounds.
            name: What the names of the rounds' stages begin with.
        """

        def train(members: Sequence[Member], stage: str) -> None:
            self.train(members, samples, f"{name}{stage}", epochs=how.between)

        return pruned(map(self.fitted.dense, means), how, settle=self.settled, train=train)

    def settled(self, member: Member) -> Member:
        """A member whose weights have changed, with statistics of its own, where it computes."""
        batches = self.fitted.training.batches(self.recipe.chain.batch_size)
        return re_estimate(member.to(self.device), self.fitted.task, batches)

    def train(
        self,
        members: Sequence[Member],
        samples: Sequence[Sample],
        stage: str,
        epochs: int | None = None,
    ) -> None:
        """Retrain members; before the last round of pruning for a few `epochs` only."""
        how, fitted = self.recipe.retrain, self.fitted
        assert how is not None
        if epochs is not None:
            how = how.model_copy(update={"epochs": epochs})
        work = Retraining(
            members,
            fitted.task,
            batches=fitted.training.batches(how.batch_size),
            prior=self.recipe.prior,
            settings=how,
            samples=[fitted.dense(s).to(self.device) for s in samples] if how.taught else (),
            stage=stage,
            seed=self.recipe.seed,
            team=self.team,
        )
        self._finished(stage, work, lambda sample: work.groups[sample.chain])

    def _finished(
        self, stage: str, work: PartWork, members: Callable[[Sample], Sequence[Member]]
    ) -> list[Sample]:
        """What all parts of a stage give."""
        folder = self._folder(stage)
        monitor = self._monitor(stage, members, folder)
        parts = Parts(work, folder, monitor, self.callback, self.stop, self.engine, self.team)
        samples = parts.finish()
        self.history += parts.history
        return samples

    def _monitor(
        self,
        stage: str,
        members: Callable[[Sample], Sequence[Member]],
        folder: StageFolder | None,
    ) -> Monitor:
        return Monitor(
            stage, self.fitted.task, self.watched, members, callback=self.callback, folder=folder
        )

    def _folder(self, stage: str) -> StageFolder | None:
        if self.run is None:
            return None
        folder = self.run.stage(stage)
        if stage != "chain":
            folder.claim(self.identity)
        return folder
