"""One call from a network and data to an ensemble: the stages, composed.

`learn` = draw samples → prune → compact → retrain → ensemble. Each stage can be called by hand;
this adds only the checks of what comes from outside, and a folder that makes it resumable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from sparsemble.augmentations import Augmentation
from sparsemble.caller_modes import in_own_modes
from sparsemble.devices import usable_device, with_threads
from sparsemble.engines import Engine
from sparsemble.engines.choosing import engine_on
from sparsemble.ensemble import Budget, Ensemble, Verdict, judge
from sparsemble.ensemble.comparison import evidence_of
from sparsemble.errors import DivergedError, InputError
from sparsemble.learning.choosing import Candidate
from sparsemble.learning.describing import Tracer
from sparsemble.learning.diagnostics import Diversity, diagnose
from sparsemble.learning.findings import Finding
from sparsemble.learning.fitting import Fitted, fit, held_out
from sparsemble.learning.pipeline import Pipeline
from sparsemble.learning.planning import check_planned, plan
from sparsemble.learning.spending import StageCost, TrainingCost, stage_cost, training_cost
from sparsemble.learning.trials import trials_cost
from sparsemble.paths import named
from sparsemble.processes.interrupts import stop_requests
from sparsemble.progress.showing import shown_if
from sparsemble.recipes import Recipe
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.runs.disk import check_disk, disk_needed
from sparsemble.runs.folder import RunFolder
from sparsemble.seeds import STREAMS
from sparsemble.stages import Callback, History
from sparsemble.stages.starting import NetworkSource
from sparsemble.structure import Layout
from sparsemble.tasks import Task, described_task, task_for
from sparsemble.team import Team, is_first, team_here


@dataclass(frozen=True)
class Learned:
    """An ensemble and how it came about; `seconds` counts every epoch of each stage once."""

    ensemble: Ensemble
    recipe: Recipe
    """What was run; without one given, what was found."""
    history: History
    findings: list[Finding]
    candidates: list[Candidate] = field(default_factory=list)
    """What was compared on validation data, if members were chosen."""
    chosen: int | None = None
    """Which of them is the ensemble."""
    dense: Learned | None = None
    """The dense networks that were trained beside, unless they diverged."""
    trials: StageCost | None = None
    """What finding the recipe took, as far as the run's folder tells."""

    @property
    def seconds(self) -> dict[str, float]:
        """Training time over all sessions of the run: of the chain, of all that comes after, and of
        trials before, if there were some; also of what a divergence undid."""
        spent = {"chain": 0.0, "retrain": 0.0}
        for stage in dict.fromkeys(record.stage for record in self.history.epochs):
            taken = stage_cost(stage, self.history).seconds
            if taken is None:  # in an older trace, of what was undone
                taken = sum(r.seconds for r in self.history.epochs if r.stage == stage)
            spent["chain" if stage == "chain" else "retrain"] += taken
        if self.trials is not None and self.trials.seconds is not None:
            spent["trials"] = self.trials.seconds
        return spent

    @property
    def training(self) -> TrainingCost:
        """Epochs, FLOPs and seconds of every stage, beside those of one dense network."""
        return training_cost(self.history, self.recipe, self.ensemble.cost.dense_flops, self.trials)

    def verdict(self, data: Any) -> Verdict:
        """Is the ensemble better than the dense network beside it, and at which cost?

        Args:
            data: What neither was trained on, nor chosen by.
        """
        if self.dense is None:
            raise InputError("no dense network was trained beside: learn(…, baseline=1)")
        own, other = (sum(learned.seconds.values()) for learned in (self, self.dense))
        dense = self.dense.ensemble
        return judge(self.ensemble, dense[:1], data, seconds=(own, other / len(dense)))


@in_own_modes
def learn(
    network: NetworkSource,
    data: Any,
    recipe: Recipe | None = None,
    *,
    budget: Budget | None = None,
    baseline: int | None = None,
    augment: Augmentation | Callable[[Tensor], Tensor] | None = None,
    seed: int = 0,
    epochs: int | None = None,
    task: Task | None = None,
    layout: Layout | None = None,
    folder: str | Path | None = None,
    samples_folder: str | Path | None = None,
    num_data: int | None = None,
    validation: Any = None,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
    progress: bool | None = None,
    on: Engine | int | str | None = None,
) -> Learned:
    """Learn a sparse structured ensemble.

    Args:
        network: A module (its weights are where the first chain starts) or a function that makes a
            freshly initialised one.
        data: A pair of arrays `(inputs, targets)`, a `Dataset`, a torch `Dataset` or a
            `DataLoader`; for a table what `table` or `read_table` gives, for a language model a
            `Corpus`. For a network of several arguments the
            inputs are a tuple or, by name, a dict of arrays: `({"tokens": t, "mask": m}, targets)`.
            Targets of several dimensions are the classes of tokens or pixels; -100 marks those that
            do not count.
        recipe: Prior, chain, pruning and retraining; without one they are found by short trials.
        budget: What the ensemble may cost, in the place of a recipe; by default as many FLOPs as
            one dense network.
        baseline: How many dense networks to train beside, for `Learned.verdict`; by default one,
            with a recipe none.
        augment: Without a recipe: how inputs are perturbed while training.
        seed: Without a recipe: everything random follows from it.
        epochs: Without a recipe: how long a chain is at most, and trials at that length; by default
            as long as is usual for so many examples.
        task: What is predicted; by default the recipe's, or else what the data are for:
            `LanguageModelling` for a `Corpus`, `Regression` for a `Dataset` of numbers,
            `Classification` for anything else.
        layout: The network's layout, if it was written by hand; without one it is known or traced.
        folder: Keep the run there, and go on where it was stopped.
        samples_folder: Keep the samples there, to be shared by runs that differ only after the
            chain.
        num_data: The number of examples, for a data loader that does not know it.
        validation: Data to watch the growing ensemble on and, if members are chosen, to choose
            them on. To choose, a part of the training data is set aside if none are given; to
            watch, training data do.
        device: Where to compute.
        callback: Told what happens, to the dense networks as well.
        progress: Show how far it is, and how it goes? By default on a terminal and in a notebook.
        on: Where chains, and members that share no computation, are worked on side by side: a
            number of processes, the address of a Dask scheduler, `dask` or `ray`, or an `Engine`.
            The bits are the same.
    """
    _check_kinds(recipe, budget, baseline, task)
    folder, samples_folder = named(folder), named(samples_folder)
    if recipe is not None and any(given is not None for given in (budget, augment, epochs)):
        raise InputError(
            "a recipe says itself what it prunes to, how inputs are perturbed and how long it takes"
        )
    task = task or (recipe.task if recipe is not None else None) or task_for(data)
    team = team_here()
    if team is not None and on is not None:
        raise InputError("processes of torchrun compute chains together already: leave `on`")
    usable = usable_device(device)
    if team is not None:
        usable = team.device(usable)
    if not is_first():
        folder = samples_folder = None
        progress = False
    with engine_on(on) as engine, _kept_in(folder, engine) as folder:
        given = _Given(network, data, task, layout, num_data, validation, usable, engine, team)
        if recipe is None:
            baseline = 1 if baseline is None else baseline
            trials = None if folder is None else RunFolder(Path(folder)).trials
            with shown_if(progress, callback, "learning") as told:
                known = _known_recipe(folder)
                if known is not None and folder is not None:
                    check_planned(
                        known, folder, budget=budget, augment=augment, seed=seed, epochs=epochs
                    )
                recipe = (known if team is None else team.same(known)) or given.telling(told).plan(
                    budget or Budget(flops=1.0), augment, seed, epochs, trials
                )
                # Processes that compute together may have judged a trial differently.
                recipe = recipe if team is None else team.same(recipe)
        run = _run_folder(folder, samples_folder, recipe)
        dense = dense_recipe(recipe, baseline) if baseline else None
        if dense is not None:
            given.fit(dense)  # before anything is learned
        with shown_if(progress, callback, "learning") as told:
            learned = given.telling(told).learn(recipe, run)
        if dense is None:
            return learned
        beside = None if run is None else RunFolder(run.baseline, code=recipe.code)
        try:
            with shown_if(progress, callback, "dense, to compare with") as told:
                return replace(learned, dense=given.telling(told).learn(dense, beside))
        except DivergedError:  # that is no reason to lose the ensemble
            return learned


def _check_kinds(recipe: Any, budget: Any, baseline: Any, task: Any) -> None:
    """Refuse arguments of `learn` that are something else than they should be."""
    if task is not None and not isinstance(task, Task):
        raise InputError(f"task = {task!r}: give a task, as Regression(), not its class or name")
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget = {budget!r}: give a Budget, as Budget(flops=1.0)")
    if baseline is not None and (not isinstance(baseline, int) or baseline < 0):
        raise InputError(f"baseline = {baseline!r}: give a number of dense networks, or 0 for none")
    if recipe is not None and not isinstance(recipe, Recipe):
        raise InputError(f"recipe = {recipe!r}: load_recipe() makes one")


@dataclass(frozen=True)
class _Given:
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

    def telling(self, callback: Callback) -> _Given:
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
        given, recipe = recipe, recipe.on(self.device)
        fitted = self.fit(recipe)
        if run is not None:
            steps = fitted.training.batches(recipe.chain.batch_size).steps
            needed = disk_needed(fitted.blank, recipe, steps)
            check_disk(run.path, run.chain.path, needed)
            self.callback.planned(run.path, needed)
        held = fitted.training.watched()
        threads = None if self.engine is None else 1
        shared = run is not None or self.team is not None
        with stop_requests(catch=shared) as stop, _opened(run, given, threads, self.team):
            identity = _identity(fitted, recipe, self.team) if shared else {}
            if self.team is not None:
                stop = self.team.watching(stop)
                self.team.check_same(identity)
            if run is not None:
                run.chain.claim(identity)
                identity |= _after_chain(recipe)
            pipeline = Pipeline(
                fitted,
                recipe,
                self.device,
                run,
                held,
                self.callback,
                stop,
                identity,
                self.engine,
                self.team,
            )
            ensemble = Ensemble(pipeline.members(), fitted.task).to(self.device)
            if run is not None:
                ensemble.save(run.ensemble)
        return Learned(
            ensemble,
            given,
            pipeline.history,
            _findings(ensemble, pipeline),
            pipeline.candidates,
            pipeline.chosen,
            trials=None if run is None else trials_cost(run.trials),
        )

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


def _known_recipe(folder: str | Path | None) -> Recipe | None:
    """What an earlier session found for a run, so that it is not looked for again."""
    if folder is None or not (Path(folder) / "run.json").is_file():
        return None
    return RunFolder(Path(folder)).recipe()


@contextmanager
def _kept_in(folder: str | Path | None, engine: Engine | None) -> Iterator[str | Path | None]:
    """The run's folder; jobs need one even if nobody else does."""
    if folder is not None or engine is None:
        yield folder
        return
    with TemporaryDirectory(prefix="sparsemble-") as meanwhile:
        yield meanwhile


def _run_folder(
    folder: str | Path | None, samples: str | Path | None, recipe: Recipe
) -> RunFolder | None:
    if folder is None:
        if samples is not None:
            raise InputError("samples_folder needs a run folder beside it")
        return None
    return RunFolder(Path(folder), Path(samples) if samples is not None else None, recipe.code)


@contextmanager
def _opened(
    run: RunFolder | None, recipe: Recipe, threads: int | None, team: Team | None
) -> Iterator[None]:
    """Lock the run and compute as it was begun: another number of threads would change bits."""
    with nullcontext() if run is None else run.locked():
        begun = torch.get_num_threads() if run is None else run.claim(recipe, threads)
        with with_threads(begun if team is None else team.same(begun)):
            yield


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


def _findings(ensemble: Ensemble, pipeline: Pipeline) -> list[Finding]:
    """What the history and the members' predictions say about the recipe."""
    held, task, diversity = pipeline.held, ensemble.task, None
    if held is not None and len(ensemble) > 1:
        evidence, _ = evidence_of(ensemble, held)
        figure = float(task.diversity(evidence).double().mean())
        diversity = Diversity(figure, task.diversity_text(figure, held.name), held.seen)
    return diagnose(
        pipeline.history,
        pipeline.recipe,
        chosen=None if pipeline.chosen is None else pipeline.candidates[pipeline.chosen],
        diversity=diversity,
        guess=task.guess(pipeline.fitted.training.batches(pipeline.recipe.chain.batch_size)),
        better=task.metrics[0].better,
    )
