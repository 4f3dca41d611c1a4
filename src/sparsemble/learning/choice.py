"""The choice among members that a budget buys: made, measured on validation data, compared.

In which order numbers of members are tried, and when that is enough, is said in `candidates`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import is_better, log_score, log_scores
from sparsemble.ensemble.timing import prediction_times
from sparsemble.errors import InputError
from sparsemble.learning.candidates import (
    TEACHERS,
    Candidate,
    by_chain,
    in_turn,
    is_enough,
    means_of,
    recent,
    stage_prefix,
)
from sparsemble.learning.pipeline import Judge, Pipeline
from sparsemble.members import Member, tensors_of
from sparsemble.stages import Sample
from sparsemble.stages.pruning import PruneSettings, pruned
from sparsemble.stages.statistics import has_statistics
from sparsemble.team import agreed


@dataclass(frozen=True)
class Chosen:
    """A run's members, and the candidates that they were chosen from, if there were any."""

    members: list[Member]
    candidates: list[Candidate] = field(default_factory=list)
    number: int | None = None
    """Which of the candidates they are."""

    @property
    def best(self) -> Candidate | None:
        """The one that is chosen, if there are candidates."""
        return None if self.number is None else self.candidates[self.number]


def choose(stages: Pipeline, samples: Sequence[Sample]) -> Chosen:
    """The members that do best on validation data; without a budget each chain's best sample.

    Args:
        stages: Of the run, which make members of samples.
        samples: What they are made of.
    """
    judge = stages.judge()
    if judge is None:
        raise InputError("to choose members validation data are needed: give some")
    if stages.recipe.prune is None:
        bests = (min(own, key=judge) for own in by_chain(samples))
        return Chosen([stages.fitted.dense(best).to(stages.device) for best in bests])
    return _Choice(stages, judge, stages.recipe.prune).among(samples)


class _Choice:
    """What was tried within a budget, and the best of it so far."""

    def __init__(self, stages: Pipeline, judge: Judge, budget: PruneSettings) -> None:
        self._stages = stages
        self._fitted = stages.fitted
        self._judge = judge
        self._budget = budget
        self._candidates: list[Candidate] = []
        self._best: tuple[int, list[Member], Tensor] | None = None
        """Number, members and scores."""

    def among(self, samples: Sequence[Sample]) -> Chosen:
        """The best members that can be made of the samples."""
        usual, *_ = order = in_turn(self._fitted.layout)
        samples = recent(samples, self._averaged_scores, usual=usual)
        chains = len({sample.chain for sample in samples})
        teachers = self._merged(samples, TEACHERS) or self._merged(samples, chains) or samples
        for count in order:
            means = self._merged(samples, count)
            if means is None or not self._is_affordable(count):
                continue
            made = self._made(means, teachers)
            helped = [self._is_best(members, retrained) for members, retrained in made]
            too_slow = count == 1 and self._best is None
            if too_slow or is_enough(count, usual, helped=any(helped)):
                break
        if self._best is None:
            raise InputError(self._why_none())
        number, members, _ = self._best
        return Chosen(members, self._candidates, number)

    def _why_none(self) -> str:
        limit, taken = self._budget.latency, [own.latency for own in self._candidates]
        fastest = min((latency for latency in taken if latency is not None), default=0.0)
        if limit is not None and fastest > limit:
            return (
                f"prune.latency = {limit:g} is too small: the fastest members took {fastest:.2g} "
                "times as long as the dense network; allow more, or fewer FLOPs"
            )
        return (
            "what the members predict of the validation data is not finite: scale inputs and "
            "targets, or lower the learning rate"
        )

    def _is_best(self, members: list[Member], retrained: bool) -> bool:
        """Are these members the best so far, and fast enough?"""
        ensemble, limit = Ensemble(members, self._fitted.task), self._budget.latency
        candidate = self._candidate(ensemble, retrained)
        self._candidates.append(candidate)
        if limit is not None and (candidate.latency or 0) > limit:
            return False
        scores = log_scores(ensemble, self._judge.data)
        if self._best is None:
            better = bool(scores.isfinite().all())
        else:
            better = is_better(scores, self._best[2])
        if better:
            self._best = len(self._candidates) - 1, members, scores
        return better

    def _candidate(self, ensemble: Ensemble, retrained: bool) -> Candidate:
        cost = ensemble.cost
        return Candidate(
            members=len(ensemble),
            retrained=retrained,
            figure=log_score(ensemble, self._judge.data),
            flops=cost.flops_ratio,
            parameters=cost.parameters_ratio,
            latency=None if self._budget.latency is None else self._latency(ensemble),
        )

    def _latency(self, ensemble: Ensemble) -> float:
        """How long a prediction takes; measured once, so that a resumed run chooses the same."""
        run, team = self._stages.run, self._stages.team
        measured = agreed([] if run is None else run.latencies(), team)
        number = len(self._candidates)
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
        self, means: Sequence[Sample], teachers: Sequence[Sample]
    ) -> Iterator[tuple[list[Member], bool]]:
        """Members made of means within the budget: retrained, which is said; and pruned at once."""
        stages = self._stages
        name = stage_prefix(len(means))
        if stages.recipe.retrain is not None:
            members = stages.prune_in_rounds(means, teachers, self._budget, name)
            stages.measure(members, means, f"{name}pruned")
            stages.train(members, teachers, f"{name}retrain")
            yield members, True
        members = pruned(map(self._fitted.dense, means), self._budget, settle=stages.settled)
        stages.measure(members, means, f"{name}pruned-at-once")
        yield members, False

    def _is_affordable(self, count: int) -> bool:
        """Does the budget leave so many members a unit in every layer, and weights?"""
        dense = Member.dense(self._fitted.blank, self._fitted.layout)
        return self._budget.shares(count)[-1].suffices(dense)

    def _averaged_scores(self, samples: Sequence[Sample]) -> Tensor:
        """Log scores of the means of every chain."""
        means = self._merged(samples, len(by_chain(samples))) or samples
        members = [self._dense(mean) for mean in means]
        return log_scores(Ensemble(members, self._fitted.task), self._judge.data)

    def _merged(self, samples: Sequence[Sample], count: int) -> list[Sample] | None:
        """So many means of neighbouring samples, with statistics of their own."""
        fitted = self._fitted
        means = means_of(samples, count, fitted.layout, fitted.blank)
        if means is None or not has_statistics(fitted.blank):
            return means
        settled = (self._stages.settled(fitted.dense(mean)).cpu() for mean in means)
        return [
            replace(mean, parameters=tensors_of(member.network))
            for mean, member in zip(means, settled, strict=True)
        ]

    def _dense(self, sample: Sample) -> Member:
        return self._fitted.dense(sample).to(self._stages.device)
