"""The steps of a run: draw samples, prune them, retrain the members; each kept and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import nn

from sparsemble.members import Member, filled
from sparsemble.recipes import Recipe
from sparsemble.runs.folder import RunFolder, StageFolder
from sparsemble.runs.interrupts import StopRequest
from sparsemble.runs.keeper import Keeper
from sparsemble.runs.looks import Look
from sparsemble.runs.meter import Meter
from sparsemble.runs.source import Source
from sparsemble.stages import History, Observer, Sample, draw_samples, retrain
from sparsemble.stages.pruning import pruned_member
from sparsemble.stages.retraining import retrained_together
from sparsemble.stages.sampling import NetworkSource
from sparsemble.structure import Layout


@dataclass
class Steps:
    """One run's steps, in the order they are called; `history` grows with them.

    `blank` is a network of the run's kind, to put samples into.
    """

    network: NetworkSource
    blank: nn.Module
    layout: Layout
    source: Source
    recipe: Recipe
    run: RunFolder | None
    look: Look | None
    observer: Observer
    stop: StopRequest
    history: History = field(default_factory=History)

    def draw(self) -> list[Sample]:
        """Stage 1."""
        how = self.recipe.chain
        keeper = self._keeper("chain", lambda sample: [self._dense(sample)])
        state, known = keeper.resume()
        batches = self.source.batches(how.batch_size)
        wanted = set(how.steps_to_collect(batches.steps))
        samples = draw_samples(
            self.network,
            self.layout,
            batches,
            self.recipe.prior,
            how,
            seed=self.recipe.seed,
            observer=keeper,
            # The folder may hold more chains than this recipe asks for.
            collected=[s for s in known if s.chain < how.chains and s.step in wanted],
            resume=state,
        )
        self.history += keeper.history.of_chains(how.chains)
        return samples

    def prune(self, samples: Sequence[Sample]) -> list[Member]:
        """Prune and compact every sample, or take it as it is."""
        how = self.recipe.prune
        if how is None:
            return [self._dense(sample) for sample in samples]
        members = [pruned_member(self.blank, self.layout, s.parameters, how) for s in samples]
        if self.run is not None:
            self.source.ensemble(members).save(self.run.pruned)
        return members

    def retrain(self, members: Sequence[Member]) -> None:
        """Stage 2, in place."""
        how = self.recipe.retrain
        if how is None:
            return
        groups = retrained_together(members)
        keeper = self._keeper("retrain", lambda sample: groups[sample.chain])
        state, finished = keeper.resume()
        retrain(
            members,
            self.source.batches(how.batch_size),
            self.recipe.prior,
            how,
            seed=self.recipe.seed,
            observer=keeper,
            collected=finished,
            resume=state,
        )
        self.history += keeper.history

    def _keeper(self, stage: str, members: Callable[[Sample], Sequence[Member]]) -> Keeper:
        meter = Meter(stage, self.look, members)
        return Keeper(self._folder(stage), meter, self.observer, self.stop)

    def _folder(self, stage: str) -> StageFolder | None:
        if self.run is None:
            return None
        return self.run.chain if stage == "chain" else self.run.retrain

    def _dense(self, sample: Sample) -> Member:
        """A sample as it is."""
        return Member.dense(filled(self.blank, sample.parameters), self.layout).eval()
