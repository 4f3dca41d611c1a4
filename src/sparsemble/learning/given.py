"""What `learn` was given, and what a recipe makes of it.

What files of a run depend on is its identity: a folder with another one is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsemble.augmentations import Augmentation
from sparsemble.devices import with_threads
from sparsemble.engines import Engine
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.learning.candidates import Candidate
from sparsemble.learning.choice import Chosen, choose
from sparsemble.learning.describing import Tracer
from sparsemble.learning.diagnostics import Diversity, diagnose
from sparsemble.learning.findings import Finding
from sparsemble.learning.fitting import Fitted, fit, held_out
from sparsemble.learning.learned import Learned
from sparsemble.learning.pipeline import Pipeline
from sparsemble.learning.planning import plan
from sparsemble.learning.trials import trials_cost
from sparsemble.processes.interrupts import stop_requests
from sparsemble.recipes import Recipe
from sparsemble.runs.disk import check_disk, disk_needed
from sparsemble.runs.folder import RunFolder
from sparsemble.seeds import STREAMS
from sparsemble.stages import Callback
from sparsemble.stages.starting import NetworkSource
from sparsemble.structure import Layout
from sparsemble.tasks import Task, described_task
from sparsemble.team import Team, agreed


@dataclass(frozen=True)
class Given:
    """What `learn` was given, but for the recipe."""

    network: NetworkSource
    data: Any
    task: Task
    layout: Layout | None
    num_data: int | None
    validation: Any
    device: torch.device
    engine: Engine | None = None
    team: Team | None = None
    callback: Callback = field(default_factory=Callback)
    tracer: Tracer = field(default_factory=Tracer)

    def telling(self, callback: Callback) -> Given:
        """The same, watched by a callback."""
        return replace(self, callback=callback)

    def plan(
        self,
        budget: Budget,
        augment: Augmentation | Callable[[Tensor], Tensor] | None,
        seed: int,
        epochs: int | None,
        trials: Path | None,
    ) -> Recipe:
        """A recipe for a budget; trials are kept in a folder."""
        return plan(
            self.network,
            self.data,
            budget,
            augment=augment,
            seed=seed,
            epochs=epochs,
            task=self.task,
            layout=self.layout,
            num_data=self.num_data,
            validation=self.validation,
            device=self.device,
            callback=self.callback,
            folder=trials,
            tracer=self.tracer,
        )

    def learn(self, recipe: Recipe, run: RunFolder | None) -> Learned:
        """What a recipe makes of it, kept in a folder."""
        resolved = recipe.on(self.device)
        fitted = self.fit(resolved)
        if run is not None:
            steps = fitted.training.batches(resolved.chain.batch_size).steps
            needed = disk_needed(fitted.blank, resolved, steps)
            check_disk(run.path, run.chain.path, needed)
            self.callback.planned(run.path, needed)
        watched = fitted.training.watched()
        threads = None if self.engine is None else 1
        shared = run is not None or self.team is not None
        with stop_requests(catch=shared) as stop, self._opened(run, recipe, threads):
            identity = _identity(fitted, resolved, self.team) if shared else {}
            if self.team is not None:
                stop = self.team.watching(stop)
                self.team.check_same(identity)
            if run is not None:
                run.chain.claim(identity)
                identity |= _after_chain(resolved)
            stages = Pipeline(
                fitted,
                resolved,
                self.device,
                run,
                watched=watched,
                callback=self.callback,
                stop=stop,
                identity=identity,
                engine=self.engine,
                team=self.team,
            )
            samples = stages.draw()
            chosen = choose(stages, samples) if resolved.choose else Chosen(stages.members(samples))
            ensemble = Ensemble(chosen.members, fitted.task).to(self.device)
            if run is not None:
                ensemble.save(run.ensemble)
        return Learned(
            ensemble,
            recipe,
            stages.history,
            _findings(ensemble, stages, chosen.best),
            chosen.candidates,
            chosen.number,
            trials=None if run is None else trials_cost(run.trials),
        )

    @contextmanager
    def _opened(self, run: RunFolder | None, recipe: Recipe, threads: int | None) -> Iterator[None]:
        """Lock the run and compute as it was begun: another number of threads would change bits."""
        # In a team every process has a device of its own.
        device = self.device if self.team is None else self.device.type
        with nullcontext() if run is None else run.locked():
            begun = torch.get_num_threads() if run is None else run.claim(recipe, threads, device)
            with with_threads(agreed(begun, self.team)):
                yield

    def fit(self, recipe: Recipe) -> Fitted:
        """All of it, if it goes together and with a recipe."""
        data, validation = self.data, self.validation
        if recipe.choose:
            data, validation = held_out(self.task, data, validation, recipe.seed)
        return fit(
            self.network,
            data,
            recipe,
            self.task,
            self.layout,
            self.num_data,
            validation,
            self.device,
            self.tracer,
        )


def _identity(fitted: Fitted, recipe: Recipe, team: Team | None) -> dict[str, Any]:
    """What the chain's files depend on; not how many chains there are."""
    judged = fitted.training.judged()
    chooses = recipe.choose or recipe.chain.patience is not None
    return {
        **({"validation data": judged.fingerprint()} if chooses and judged is not None else {}),
        "network": _digest(fitted.description),
        "initial weights": fitted.initial_weights,
        "task": _digest(json.dumps(described_task(fitted.task), sort_keys=True)),
        "data": fitted.training.fingerprint(),
        "prior": recipe.model_dump(mode="json")["prior"],
        "chain": recipe.chain.what_samples_depend_on(),
        "seed": recipe.seed,
        "random streams": STREAMS,
        "number of processes": None if team is None else team.size,
    }


def _after_chain(recipe: Recipe) -> dict[str, Any]:
    """What the files of later stages depend on besides."""
    after = recipe.model_dump(mode="json", include={"prune", "retrain"})
    return {**after, "chains": recipe.chain.chains}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _findings(ensemble: Ensemble, stages: Pipeline, best: Candidate | None) -> list[Finding]:
    """What the history and the members' predictions say about the recipe."""
    held, task, diversity = stages.watched, ensemble.task, None
    if held is not None and len(ensemble) > 1:
        evidence, _ = evidence_of(ensemble, held)
        figure = float(task.diversity(evidence).double().mean())
        diversity = Diversity(figure, task.diversity_text(figure, held.name), held.seen)
    batches = stages.fitted.training.batches(stages.recipe.chain.batch_size)
    return diagnose(
        stages.history,
        stages.recipe,
        chosen=best,
        diversity=diversity,
        guess=task.guess(batches),
        better=task.metrics[0].better,
        steps=batches.steps,
    )
