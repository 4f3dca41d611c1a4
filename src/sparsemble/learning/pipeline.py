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
)
from sparsemble.learning.fitting import Fitted
from sparsemble.learning.monitor import Monitor
from sparsemble.members import Member, tensors_of
from sparsemble.processes.interrupts import StopRequest
from sparsemble.recipes import Recipe
from sparsemble.runs.checkpointing import Checkpointing
from sparsemble.runs.folder import RunFolder, StageFolder
from sparsemble.stages import Callback, History, Sample, draw_samples, retrain
from sparsemble.stages.pruning import PruneSettings, pruned_member, within
from sparsemble.stages.retraining import retrained_together
from sparsemble.stages.statistics import has_statistics, re_estimate
from sparsemble.stages.unit_pruning import least_flops
from sparsemble.tasks import Evaluation


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
    stop: StopRequest
    identity: Mapping[str, Any] = field(default_factory=dict)
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
        keeping = self._keeping("chain", lambda sample: [fitted.dense(sample)])
        state, known = keeping.resume()
        batches = fitted.training.batches(how.batch_size)
        wanted = set(how.steps_to_collect(batches.steps))
        judged = fitted.training.judged()
        samples = draw_samples(
            fitted.network,
            fitted.layout,
            fitted.task,
            batches,
            self.recipe.prior,
            how,
            seed=self.recipe.seed,
            device=self.device,
            callback=keeping,
            judge=None if judged is None else lambda sample: self._figure(sample, judged),
            # The folder may hold more chains than this recipe asks for.
            collected=[s for s in known if s.chain < how.chains and s.step in wanted],
            resume=state,
        )
        self.history += keeping.history.of_chains(how.chains)
        return samples

    def _figure(self, sample: Sample, judged: Evaluation) -> float:
        """How good a sample is by itself on validation data."""
        task = self.fitted.task
        alone = Ensemble([self.fitted.dense(sample).to(self.device)], task)
        return alone.evaluate(judged)[task.log_score]

    def prune(self, samples: Sequence[Sample]) -> list[Member]:
        """Prune and compact every sample, or take it as it is."""
        how, fitted = self.recipe.prune, self.fitted
        if how is None:
            return [fitted.dense(sample).to(self.device) for sample in samples]
        if how.sparsity is None:
            members = self._prune_to_budget(samples, samples, how)
        else:
            members = [self._settled(pruned_member(fitted.dense(s), how)) for s in samples]
        if self.run is not None:
            Ensemble(members, fitted.task).save(self.run.pruned)
        members = [member.to(self.device) for member in members]
        self._measure(members, samples, "pruned")
        return members

    def _measure(self, members: Sequence[Member], samples: Sequence[Sample], stage: str) -> None:
        """How members do that nothing was trained for yet; only once, as all of them are known."""
        folder = None if self.run is None else self.run.stage(stage)
        known = [] if folder is None else folder.history().samples
        if len(known) < len(members):
            if folder is not None:
                folder.rewind_trace(None)
            own = {id(s): [member] for s, member in zip(samples, members, strict=True)}
            monitor = Monitor(stage, self.fitted.task, self.held, lambda s: own[id(s)])
            known = [record for sample in samples for record in monitor.measure(sample)]
            for record in known:
                self.callback.measured(record)
                if folder is not None:
                    folder.record(record)
        self.history += History(samples=known)

    def _prune_to_budget(
        self, means: Sequence[Sample], samples: Sequence[Sample], how: PruneSettings, name: str = ""
    ) -> list[Member]:
        """Round by round, trained a little after each but the last."""
        members = [self.fitted.dense(mean) for mean in means]
        *rounds, last = how.shares(len(members))
        for number, share in enumerate(rounds, start=1):
            members = [self._within(member, share) for member in members]
            self._train(members, samples, f"{name}prune-{number}", epochs=how.between)
        return [self._within(member, last) for member in members]

    def _within(self, member: Member, share: tuple[float | None, float | None]) -> Member:
        """A member pruned to a share, ready to predict."""
        return self._settled(within(member, *share))

    def _settled(self, member: Member) -> Member:
        """A member whose weights have changed, with statistics of its own, where it computes."""
        batches = self.fitted.training.batches(self.recipe.chain.batch_size)
        return re_estimate(member.to(self.device), self.fitted.task, batches)

    def _choose(self, samples: Sequence[Sample]) -> list[Member]:
        """The members that do best on validation data, of all that are within the budget."""
        how, judged = self.recipe.prune, self.fitted.training.judged()
        if judged is None:
            raise InputError("to choose members validation data are needed: give some")
        if how is None:
            bests = (
                min(own, key=lambda sample: self._figure(sample, judged))
                for own in by_chain(samples)
            )
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
        measured = [] if self.run is None else self.run.latencies()
        number = len(self.candidates)
        if number < len(measured):
            return measured[number]
        blank = copy.deepcopy(self.fitted.blank).to(self.device)
        dense = Ensemble([Member.dense(blank, self.fitted.layout)], ensemble.task)
        found = max(prediction_times(ensemble, dense, judged).values())
        if self.run is not None:
            self.run.save_latencies([*measured, found])
        return found

    def _is_affordable(self, how: PruneSettings, count: int) -> bool:
        """Does the budget leave so many members a unit in every layer?"""
        flops, _ = how.shares(count)[-1]
        least = least_flops(dict(self.fitted.blank.named_parameters()), self.fitted.layout)
        return flops is None or flops * self.fitted.dense_cost.flops >= least

    def _spent_on(
        self, means: Sequence[Sample], samples: Sequence[Sample], how: PruneSettings
    ) -> Iterator[tuple[list[Member], bool]]:
        """Members made of some means within the budget: retrained, and pruned at once."""
        if self.recipe.retrain is not None:
            name = f"members-{len(means)}-"
            members = self._prune_to_budget(means, samples, how, name)
            self._measure(members, means, f"{name}pruned")
            self._train(members, samples, f"{name}retrain")
            yield members, True
        share = how.shares(len(means))[-1]
        members = [self._within(self.fitted.dense(mean), share) for mean in means]
        self._measure(members, means, f"members-{len(means)}-pruned-at-once")
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
        groups = retrained_together(members)
        keeping = self._keeping(stage, lambda sample: groups[sample.chain])
        state, finished = keeping.resume()
        retrain(
            members,
            fitted.task,
            fitted.training.batches(how.batch_size),
            self.recipe.prior,
            how,
            samples=[fitted.dense(s).to(self.device) for s in samples] if how.taught else (),
            stage=stage,
            seed=self.recipe.seed,
            callback=keeping,
            collected=finished,
            resume=state,
        )
        self.history += keeping.history

    def _keeping(self, stage: str, members: Callable[[Sample], Sequence[Member]]) -> Checkpointing:
        monitor = Monitor(stage, self.fitted.task, self.held, members)
        return Checkpointing(self._folder(stage), monitor, self.callback, self.stop)

    def _folder(self, stage: str) -> StageFolder | None:
        if self.run is None:
            return None
        folder = self.run.stage(stage)
        if stage != "chain":
            folder.claim(self.identity)
        return folder
