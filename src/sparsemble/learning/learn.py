"""One call from a network and data to an ensemble: the stages, composed.

`learn` = draw samples → prune → compact → retrain → ensemble. Each stage can be called by hand;
this adds only the checks of what comes from outside, and a folder that makes it resumable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.augmentations import Augmentation
from sparsemble.caller_modes import in_own_modes
from sparsemble.devices import usable_device
from sparsemble.engines import Engine
from sparsemble.engines.choosing import engine_on
from sparsemble.ensemble import Budget
from sparsemble.errors import DivergedError, InputError
from sparsemble.learning.given import Given
from sparsemble.learning.learned import Learned
from sparsemble.learning.planning import check_planned
from sparsemble.paths import named
from sparsemble.progress.showing import shown_if
from sparsemble.recipes import Recipe
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.runs.folder import RunFolder, is_run
from sparsemble.stages import Callback
from sparsemble.stages.starting import NetworkSource, TracedSource
from sparsemble.structure import Layout
from sparsemble.tasks import Task, task_for
from sparsemble.team import agreed, is_first, team_here


@in_own_modes
def learn(
    network: NetworkSource,
    data: Any,
    recipe: Recipe | None = None,
    *,
    budget: Budget | None = None,
    baseline: int | None = None,
    augment: Augmentation | Callable[[Tensor], Tensor] | None = None,
    seed: int | None = None,
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
            with a recipe none (what it says of a baseline itself is for commands).
        augment: Without a recipe: how inputs are perturbed while training.
        seed: Everything random follows from it; by default the recipe's.
        epochs: Without a recipe: how long a chain is at most, by default as long as is usual for so
            many examples. A trial is no longer than that, but for two epochs at least.
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
    _check_kinds(network, recipe, budget, baseline, task, layout, callback)
    for path in (folder, samples_folder):
        if path is not None and not isinstance(path, str | Path):
            raise InputError(f"{path!r} is no folder: give its name, or a Path")
    folder, samples_folder = named(folder), named(samples_folder)
    if recipe is not None and any(given is not None for given in (budget, augment, epochs)):
        raise InputError(
            "a recipe says itself what it prunes to, how inputs are perturbed and how long it takes"
        )
    if recipe is not None and seed is not None:
        recipe = Recipe(**{**dict(recipe), "seed": seed})
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
        given = Given(network, data, task, layout, num_data, validation, usable, engine, team)
        if recipe is None:
            baseline = 1 if baseline is None else baseline
            with shown_if(progress, callback, "learning") as told:
                recipe = _found(given.telling(told), folder, budget, augment, seed or 0, epochs)
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


def _check_kinds(
    network: Any,
    recipe: Any,
    budget: Any,
    baseline: Any,
    task: Any,
    layout: Any,
    callback: Any,
) -> None:
    """Refuse arguments of `learn` that are something else than they should be."""
    if not isinstance(network, nn.Module | TracedSource) and not callable(network):
        raise InputError(
            f"network = {network!r}: give a torch.nn.Module, or a function that makes one"
        )
    if layout is not None and not isinstance(layout, Layout):
        raise InputError(f"layout = {layout!r}: give a Layout, or leave it out")
    if callback is not None and not isinstance(callback, Callback):
        raise InputError(f"callback = {callback!r}: give a subclass of Callback, made")
    if task is not None and not isinstance(task, Task):
        raise InputError(f"task = {task!r}: give a task, as Regression(), not its class or name")
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget = {budget!r}: give a Budget, as Budget(flops=1.0)")
    if baseline is not None and (not isinstance(baseline, int) or baseline < 0):
        raise InputError(f"baseline = {baseline!r}: give a number of dense networks, or 0 for none")
    if recipe is not None and not isinstance(recipe, Recipe):
        raise InputError(f"recipe = {recipe!r}: load_recipe() makes one")


def _found(
    given: Given,
    folder: str | Path | None,
    budget: Budget | None,
    augment: Augmentation | Callable[[Tensor], Tensor] | None,
    seed: int,
    epochs: int | None,
) -> Recipe:
    """The recipe for a budget: what an earlier session found for the run, or trials find now."""
    known, trials = _known_recipe(folder), None
    if folder is not None:
        trials = RunFolder(Path(folder)).trials
        if known is not None:
            check_planned(known, folder, budget=budget, augment=augment, seed=seed, epochs=epochs)
    known = agreed(known, given.team)
    found = known or given.plan(budget or Budget(flops=1.0), augment, seed, epochs, trials)
    # Processes that compute together may have judged a trial differently.
    return agreed(found, given.team)


def _known_recipe(folder: str | Path | None) -> Recipe | None:
    """What an earlier session found for a run, so that it is not looked for again."""
    if folder is None or not is_run(folder):
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
