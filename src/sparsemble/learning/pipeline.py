"""The stages of one run in order: draw samples, prune them, retrain the members.

Each stage is kept in the run's folder, if there is one, and measured while it goes on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from sparsemble.engines import Engine
from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import is_better, log_scores
from sparsemble.ensemble.timing import prediction_times
from sparsemble.errors import InputError
from sparsemble.learning.choosing import (
    TEACHERS,
    Candidate,
    by_chain,
    in_turn,
    is_enough,
    merged,
    recent,
    stages_of,
)
from sparsemble.learning.fitting import Fitted
from sparsemble.learning.monitor import Monitor
from sparsemble.learning.part_work import PartWork
from sparsemble.learning.parts import Parts
from sparsemble.members import Member, tensors_of
from sparsemble.processes.interrupts import Stop
from sparsemble.recipes import Recipe
from sparsemble.runs import RunFolder, StageFolder
from sparsemble.stages import Callback, Drawing, History, Retraining, Sample
from sparsemble.stages.pruning import PruneSettings, pruned
from sparsemble.stages.statistics import has_statistics, re_estimate
from sparsemble.tasks import Evaluation
from sparsemble.team import Team, agreed


@dataclass(frozen=True)
class Judge:
    """Says how good a sample is by itself on validation data, lower being better."""

    fitted: Fitted
    data: Evaluation
    device: torch.device

    def __call__(self, sample: Sample) -> float:
        """How good it is."""
        task = self.fitted.task
        alone = Ensemble([self.fitted.dense(sample).to(self.device)], task)
        return alone.evaluate(self.data)[task.log_score]


@dataclass
class Pipeline:
    """One run's stages; `history` grows with them, and `candidates` if one of them is `chosen`.

    `identity` is what the files of a stage after the chain depend on.
    """

    fitted: Fitted
    recipe: Recipe
    device: torch.device
    run: RunFolder | None
    held: Evaluation | None
    callback: Callback
    stop: Stop
    identity: Mapping[str, Any] = field(default_factory=dict)
    engine: Engine | None = None
    team: Team | None = None
    history: History = field(default_factory=History)
    candidates: list[Candidate] = field(default_factory=list)
    chosen: int | None = None

    def members(self) -> list[Member]:
        """All of them."""
        samples = self.draw()
        if self.recipe.choose:
            return self._choose(samples)
        members = self.prune(samples)
        self.retrain(members, samples)
        return members

    def draw(self) -> list[Sample]:
        """Stage 1."""
        how, fitted = self.recipe.chain, self.fitted
        work = Drawing(
            fitted.network,
            fitted.layout,
            fitted.task,
            fitted.training.batches(how.batch_size),
            self.recipe.prior,
            how,
            self.recipe.seed,
            self.device,
            self._judge() if how.patience is not None else None,
            self.team,
        )
        samples = self._finished("chain", work, lambda sample: [fitted.dense(sample)])
        for sample in samples:
            fitted.check(sample)
        return samples

    def _judge(self) -> Judge | None:
        judged = self.fitted.training.judged()
        return None if judged is None else Judge(self.fitted, judged, self.device)

    def prune(self, samples: Sequence[Sample]) -> list[Member]:
        """Prune and compact every sample, or take it as it is."""
        how = self.recipe.prune
        if how is None:
            return [self.fitted.dense(sample).to(self.device) for sample in samples]
        members = self._pruned(samples, samples, how)
        if self.run is not None:
            Ensemble(members, self.fitted.task).save(self.run.pruned)
        members = [member.to(self.device) for member in members]
        self._measure(members, samples, "pruned")
        return members

    def _measure(self, members: Sequence[Member], samples: Sequence[Sample], stage: str) -> None:
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

    def _pruned(
        self, means: Sequence[Sample], samples: Sequence[Sample], how: PruneSettings, name: str = ""
    ) -> list[Member]:
        """Round by round, trained a little after each but the last."""

        def train(members: Sequence[Member], stage: str) -> None:
            self._train(members, samples, f"{name}{stage}", epochs=how.between)

        return pruned(map(self.fitted.dense, means), how, settle=self._settled, train=train)

    def _settled(self, member: Member) -> Member:
        """A member whose weights have changed, with statistics of its own, where it computes."""
        batches = self.fitted.training.batches(self.recipe.chain.batch_size)
        return re_estimate(member.to(self.device), self.fitted.task, batches)

    def _choose(self, samples: Sequence[Sample]) -> list[Member]:
        """The members that do best on validation data, of all that are within the budget."""
        how, judge = self.recipe.prune, self._judge()
        if judge is None:
            raise InputError("to choose members validation data are needed: give some")
        judged = judge.data
        if how is None:
            bests = (min(own, key=judge) for own in by_chain(samples))
            return [self.fitted.dense(best).to(self.device) for best in bests]
        usual, *_ = order = in_turn(self.fitted.layout)
        samples = recent(samples, lambda own: self._averaged_scores(own, judged), usual=usual)
        teachers = self._merged(samples, TEACHERS) or samples
        best: tuple[list[Member], Tensor] | None = None
        for count in order:
            means = self._merged(samples, count)
            if means is None or not self._is_affordable(how, count):
                continue
            helped = False
            for members, retrained in self._spent_on(means, teachers, how):
                ensemble = Ensemble(members, self.fitted.task)
                candidate = self._candidate(ensemble, retrained, judged)
                self.candidates.append(candidate)
                if how.latency is not None and (candidate.latency or 0) > how.latency:
                    continue
                scores = log_scores(ensemble, judged)
                if best is None or is_better(scores, best[1]):
                    best, helped = (members, scores), True
                    self.chosen = len(self.candidates) - 1
            too_slow = count == 1 and best is None
            if too_slow or is_enough(count, usual, helped=helped):
                break
        if best is None:
            fastest = min(candidate.latency or 0 for candidate in self.candidates)
            raise InputError(
                f"prune.latency = {how.latency:g} is too small: the fastest members took "
                f"{fastest:.2g} times as long as the dense network; allow more, or fewer FLOPs"
            )
        return best[0]

    def _averaged_scores(self, samples: Sequence[Sample], judged: Evaluation) -> Tensor:
        """Log scores of the means of every chain."""
        means = self._merged(samples, len(by_chain(samples))) or samples
        members = [self.fitted.dense(mean).to(self.device) for mean in means]
        return log_scores(Ensemble(members, self.fitted.task), judged)

    def _merged(self, samples: Sequence[Sample], count: int) -> list[Sample] | None:
        """So many means of neighbouring samples, with statistics of their own."""
        fitted = self.fitted
        means = merged(samples, count, fitted.layout, fitted.blank)
        if means is None or not has_statistics(fitted.blank):
            return means
        return [
            replace(mean, parameters=tensors_of(self._settled(fitted.dense(mean)).cpu().network))
            for mean in means
        ]

    def _candidate(self, ensemble: Ensemble, retrained: bool, judged: Evaluation) -> Candidate:
        cost = ensemble.cost
        return Candidate(
            members=len(ensemble),
            retrained=retrained,
            figure=ensemble.evaluate(judged)[ensemble.task.log_score],
            flops=cost.flops_ratio,
            parameters=cost.parameters_ratio,
            latency=self._latency(ensemble, judged),
        )

    def _latency(self, ensemble: Ensemble, judged: Evaluation) -> float | None:
        """How long a prediction takes; measured once, so that a resumed run chooses the same."""
        how = self.recipe.prune
        if how is None or how.latency is None:
            return None
        measured = agreed([] if self.run is None else self.run.latencies(), self.team)
        number = len(self.candidates)
        if number < len(measured):
            return measured[number]
        blank = copy.deepcopy(self.fitted.blank).to(self.device)
        dense = Ensemble([Member.dense(blank, self.fitted.layout)], ensemble.task)
        found = agreed(max(prediction_times(ensemble, dense, judged).values()), self.team)
        if self.run is not None:
            self.run.save_latencies([*measured, found])
        return found

    def _is_affordable(self, how: PruneSettings, count: int) -> bool:
        """Does the budget leave so many members a unit in every layer, and weights?"""
        return how.shares(count)[-1].suffices(Member.dense(self.fitted.blank, self.fitted.layout))

    def _spent_on(
        self, means: Sequence[Sample], samples: Sequence[Sample], how: PruneSettings
    ) -> Iterator[tuple[list[Member], bool]]:
        """Members made of some means within the budget: retrained, and pruned at once."""
        if self.recipe.retrain is not None:
            name = stages_of(len(means))
            members = self._pruned(means, samples, how, name)
            self._measure(members, means, f"{name}pruned")
            self._train(members, samples, f"{name}retrain")
            yield members, True
        members = pruned(map(self.fitted.dense, means), how, settle=self._settled)
        self._measure(members, means, f"{stages_of(len(means))}pruned-at-once")
        yield members, False

    def retrain(self, members: Sequence[Member], samples: Sequence[Sample]) -> None:
        """Stage 2, in place."""
        if self.recipe.retrain is not None:
            self._train(members, samples, "retrain")

    def _train(
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
            fitted.training.batches(how.batch_size),
            self.recipe.prior,
            how,
            [fitted.dense(s).to(self.device) for s in samples] if how.taught else (),
            stage,
            self.recipe.seed,
            self.team,
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
        return Monitor(stage, self.fitted.task, self.held, members, self.callback, folder)

    def _folder(self, stage: str) -> StageFolder | None:
        if self.run is None:
            return None
        folder = self.run.stage(stage)
        if stage != "chain":
            folder.claim(self.identity)
        return folder
