"""The choice among members that a budget buys: made, measured on validation data, compared.

In which order numbers of members are tried, and when that is enough, is said in `choosing`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

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
    stages_of,
)
from sparsemble.learning.pipeline import Pipeline
from sparsemble.members import Member, tensors_of
from sparsemble.stages import Sample
from sparsemble.stages.pruning import PruneSettings, pruned
from sparsemble.stages.statistics import has_statistics
from sparsemble.team import agreed


class Choice:
    """What was tried, and which of it is best so far.

    Args:
        stages: Of the run, which make members of samples.
    """

    def __init__(self, stages: Pipeline) -> None:
        judge = stages.judge()
        if judge is None:
            raise InputError("to choose members validation data are needed: give some")
        self._stages = stages
        self._fitted = stages.fitted
        self._judge = judge
        self._best: tuple[list[Member], Tensor] | None = None
        self.candidates: list[Candidate] = []
        self.chosen: int | None = None
        """Which of the candidates is best, if members are made for a budget at all."""

    @property
    def best(self) -> Candidate | None:
        """The one that is chosen, if there are candidates."""
        return None if self.chosen is None else self.candidates[self.chosen]

    def members(self, samples: Sequence[Sample]) -> list[Member]:
        """Those that do best; without a budget the best sample of every chain."""
        budget = self._stages.recipe.prune
        if budget is None:
            bests = (min(own, key=self._judge) for own in by_chain(samples))
            return [self._dense(best) for best in bests]
        usual, *_ = order = in_turn(self._fitted.layout)
        samples = recent(samples, self._averaged_scores, usual=usual)
        chains = len({sample.chain for sample in samples})
        teachers = self._merged(samples, TEACHERS) or self._merged(samples, chains) or samples
        for count in order:
            means = self._merged(samples, count)
            if means is None or not self._is_affordable(budget, count):
                continue
            made = self._made(means, teachers, budget)
            helped = [self._is_best(members, retrained, budget) for members, retrained in made]
            too_slow = count == 1 and self._best is None
            if too_slow or is_enough(count, usual, helped=any(helped)):
                break
        if self._best is None and budget.latency is None:
            raise InputError(
                "what the members predict of the validation data is not finite: scale inputs and "
                "targets, or lower the learning rate"
            )
        if self._best is None:
            fastest = min(candidate.latency or 0 for candidate in self.candidates)
            raise InputError(
                f"prune.latency = {budget.latency:g} is too small: the fastest members took "
                f"{fastest:.2g} times as long as the dense network; allow more, or fewer FLOPs"
            )
        return self._best[0]

    def _is_best(self, members: list[Member], retrained: bool, budget: PruneSettings) -> bool:
        """Are these members the best so far, and fast enough?"""
        ensemble = Ensemble(members, self._fitted.task)
        candidate = self._candidate(ensemble, retrained, budget)
        self.candidates.append(candidate)
        if budget.latency is not None and (candidate.latency or 0) > budget.latency:
            return False
        scores = log_scores(ensemble, self._judge.data)
        if self._best is None:
            if not bool(scores.isfinite().all()):
                return False
        elif not is_better(scores, self._best[1]):
            return False
        self._best, self.chosen = (members, scores), len(self.candidates) - 1
        return True

    def _candidate(self, ensemble: Ensemble, retrained: bool, budget: PruneSettings) -> Candidate:
        cost = ensemble.cost
        return Candidate(
            members=len(ensemble),
            retrained=retrained,
            figure=ensemble.evaluate(self._judge.data)[ensemble.task.log_score],
            flops=cost.flops_ratio,
            parameters=cost.parameters_ratio,
            latency=None if budget.latency is None else self._latency(ensemble),
        )

    def _latency(self, ensemble: Ensemble) -> float:
        """How long a prediction takes; measured once, so that a resumed run chooses the same."""
        run, team = self._stages.run, self._stages.team
        measured = agreed([] if run is None else run.latencies(), team)
        number = len(self.candidates)
        if number < len(measured):
            return measured[number]
        blank = copy.deepcopy(self._fitted.blank).to(self._stages.device)
        dense = Ensemble([Member.dense(blank, self._fitted.layout)], ensemble.task)
        times = prediction_times(ensemble, dense, self._judge.data)
        found = agreed(max(times.values()), team)
        if run is not None:
            run.save_latencies([*measured, found])
        return found

    def _made(
        self, means: Sequence[Sample], samples: Sequence[Sample], budget: PruneSettings
    ) -> Iterator[tuple[list[Member], bool]]:
        """Members made of means within the budget: retrained, which is said; and pruned at once."""
        stages = self._stages
        name = stages_of(len(means))
        if stages.recipe.retrain is not None:
            members = stages.prune_in_rounds(means, samples, budget, name)
            stages.measure(members, means, f"{name}pruned")
            stages.train(members, samples, f"{name}retrain")
            yield members, True
        members = pruned(map(self._fitted.dense, means), budget, settle=stages.settled)
        stages.measure(members, means, f"{name}pruned-at-once")
        yield members, False

    def _is_affordable(self, budget: PruneSettings, count: int) -> bool:
        """Does the budget leave so many members a unit in every layer, and weights?"""
        dense = Member.dense(self._fitted.blank, self._fitted.layout)
        return budget.shares(count)[-1].suffices(dense)

    def _averaged_scores(self, samples: Sequence[Sample]) -> Tensor:
        """Log scores of the means of every chain."""
        means = self._merged(samples, len(by_chain(samples))) or samples
        members = [self._dense(mean) for mean in means]
        return log_scores(Ensemble(members, self._fitted.task), self._judge.data)

    def _merged(self, samples: Sequence[Sample], count: int) -> list[Sample] | None:
        """So many means of neighbouring samples, with statistics of their own."""
        fitted = self._fitted
        means = merged(samples, count, fitted.layout, fitted.blank)
        if means is None or not has_statistics(fitted.blank):
            return means
        settled = (self._stages.settled(fitted.dense(mean)).cpu() for mean in means)
        return [
            replace(mean, parameters=tensors_of(member.network))
            for mean, member in zip(means, settled, strict=True)
        ]

    def _dense(self, sample: Sample) -> Member:
        return self._fitted.dense(sample).to(self._stages.device)
