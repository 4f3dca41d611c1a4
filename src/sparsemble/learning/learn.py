"""One call from a network and data to an ensemble: the stages, composed.

`learn` = draw samples → prune → compact → retrain → ensemble. Each stage can be called by hand;
this adds only the checks of what comes from outside, and a folder that makes it resumable.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.augmentations import Augmentation
from sparsemble.augmentations.augmentation import augmentation_of
from sparsemble.devices import usable_device
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.ensemble.saving import described_task
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.learning.choosing import Candidate
from sparsemble.learning.monitor import evidence_of
from sparsemble.learning.pipeline import Fitted, Pipeline
from sparsemble.learning.planning import Planner
from sparsemble.learning.rehearsal import rehearse, rehearse_augmentation, rehearse_autocast
from sparsemble.members import Member
from sparsemble.networks.layers import without_addresses
from sparsemble.processes.interrupts import stop_requests
from sparsemble.recipes import Recipe
from sparsemble.runs.disk import check_disk, disk_needed
from sparsemble.runs.folder import RunFolder
from sparsemble.samplers import Constant
from sparsemble.seeds import STREAMS, derive
from sparsemble.stages import Callback, ChainSettings, Finding, History, PruneSettings, diagnose
from sparsemble.stages.sampling import NetworkSource, initial_network
from sparsemble.stages.unit_pruning import least_flops
from sparsemble.store import tensor_digest
from sparsemble.structure import Layout
from sparsemble.structure.groupings import grouped
from sparsemble.tasks import Evaluation, Task, task_for

_HELD_OUT = 0.2
"""Share of the training data that is set aside to choose on."""
_FEW = 300
"""Examples set aside that say too little by themselves,"""
_SPLITS = 5
"""so that settings are found on as many choices of them."""
_ROUNDS = 3
"""Of pruning, under a budget."""


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

    @property
    def seconds(self) -> dict[str, float]:
        """Training time of each stage, over all sessions of the run."""
        return {
            stage: sum(record.seconds for record in self.history.epochs if record.stage == stage)
            for stage in dict.fromkeys(
                ("chain", "retrain", *(record.stage for record in self.history.epochs))
            )
        }


def learn(
    network: NetworkSource,
    data: Any,
    recipe: Recipe | None = None,
    *,
    budget: Budget | None = None,
    augment: Augmentation | Callable[[Tensor], Tensor] | None = None,
    seed: int = 0,
    task: Task | None = None,
    layout: Layout | None = None,
    folder: str | Path | None = None,
    samples_folder: str | Path | None = None,
    num_data: int | None = None,
    validation: Any = None,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
) -> Learned:
    """Learn a sparse structured ensemble.

    Args:
        network: A module (its weights are where the first chain starts) or a function that makes a
            freshly initialised one.
        data: A pair of arrays `(inputs, targets)`, a `Dataset`, a torch `Dataset` or a
            `DataLoader`; for a language model a `Corpus`.
        recipe: Prior, chain, pruning and retraining; without one they are found by short trials.
        budget: What the ensemble may cost, in the place of a recipe; by default as many FLOPs as
            one dense network.
        augment: Without a recipe: how inputs are perturbed while training.
        seed: Without a recipe: everything random follows from it.
        task: What is predicted; by default the recipe's, or else what the data are for:
            `LanguageModelling` for a `Corpus`, `Regression` for a `Dataset` of numbers,
            `Classification` for anything else.
        layout: The network's layout; only a feed-forward `nn.Sequential` or a `LanguageModel` needs
            none.
        folder: Keep the run there, and go on where it was stopped.
        samples_folder: Keep the samples there, to be shared by runs that differ only after the
            chain.
        num_data: The number of examples, for a data loader that does not know it.
        validation: Data to watch the growing ensemble on and, if members are chosen, to choose
            them on. To choose, a part of the training data is set aside if none are given; to
            watch, training data do.
        device: Where to compute.
        callback: Told what happens.
    """
    if task is not None and not isinstance(task, Task):
        raise InputError(f"task = {task!r}: give a task, as Regression(), not its class or name")
    callback = callback or Callback()
    device = usable_device(device)
    task = task or (recipe.task if isinstance(recipe, Recipe) else None) or task_for(data)
    if recipe is None:
        recipe = _known_recipe(folder) or plan(
            network,
            data,
            budget or Budget(flops=1.0),
            augment=augment,
            seed=seed,
            task=task,
            layout=layout,
            num_data=num_data,
            validation=validation,
            device=device,
            callback=callback,
        )
        data, validation = held_out(task, data, validation, seed)
    elif not isinstance(recipe, Recipe):
        raise InputError(f"recipe of type {type(recipe).__name__}: load_recipe() makes one")
    elif budget is not None or augment is not None:
        raise InputError("a recipe says itself what it prunes to and how inputs are perturbed")
    elif recipe.choose:
        data, validation = held_out(task, data, validation, recipe.seed)
    fitted = fit(network, data, recipe, task, layout, num_data, validation, device)
    run = _run_folder(folder, samples_folder, recipe)
    if run is not None:
        steps = fitted.training.batches(recipe.chain.batch_size).steps
        needed = disk_needed(fitted.blank, recipe, steps)
        check_disk(run.path, run.chain.path, needed)
        callback.planned(run.path, needed)
    held = fitted.training.watched()
    with stop_requests(catch=run is not None) as stop, _opened(run, recipe):
        identity = _claim_chain(run, fitted, recipe) if run is not None else {}
        pipeline = Pipeline(fitted, recipe, device, run, held, callback, stop, identity)
        ensemble = Ensemble(pipeline.members(), fitted.task).to(device)
        if run is not None:
            ensemble.save(run.ensemble)
    history = pipeline.history
    findings = _findings(ensemble, history, recipe, held)
    return Learned(ensemble, recipe, history, findings, pipeline.candidates, pipeline.chosen)


def held_out(task: Task, data: Any, validation: Any, seed: int) -> tuple[Any, Any]:
    """Training data of a usual scale and validation data: those given, or a part set aside."""
    if validation is None:
        data, validation = task.hold_out(data, _HELD_OUT, derive(seed, "validation"))
    return task.scaled(data), validation


def _known_recipe(folder: str | Path | None) -> Recipe | None:
    """What an earlier session found for a run, so that it is not looked for again."""
    if folder is None or not (Path(folder) / "run.json").is_file():
        return None
    return RunFolder(Path(folder)).recipe()


def plan(
    network: NetworkSource,
    data: Any,
    budget: Budget,
    *,
    augment: Augmentation | Callable[[Tensor], Tensor] | None = None,
    seed: int = 0,
    task: Task | None = None,
    layout: Layout | None = None,
    num_data: int | None = None,
    validation: Any = None,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
) -> Recipe:
    """A recipe for a budget, whose settings short trials have found.

    Args:
        network: As for `learn`.
        data: As for `learn`.
        budget: What the ensemble may cost.
        augment: How inputs are perturbed.
        seed: Of the trials, and of the recipe.
        task: As for `learn`.
        layout: As for `learn`.
        num_data: As for `learn`.
        validation: What settings are chosen on; by default a part of the training data.
        device: Where to compute.
        callback: Told what happens in the trials.
    """
    task = task or task_for(data)
    if augment is not None and not isinstance(augment, Augmentation):
        augment = augmentation_of(augment)
    trial = Recipe(
        seed=seed,
        chain=ChainSettings(schedule=Constant(lr=0.01), augment=augment),
        prune=PruneSettings(flops=budget.flops) if budget.flops is not None else None,
        choose=True,
    )
    device = usable_device(device)
    splits = [
        fit(network, rest, trial, task, layout, num_data, held, device)
        for rest, held in _splits(task, data, validation, seed)
    ]
    if splits[0].training.judged() is None:
        raise InputError("settings are chosen on validation data: give some")
    planner = Planner(splits, augment=augment, seed=seed, device=device, callback=callback)
    weights = budget.weights(splits[0].dense_cost)
    return planner.recipe(PruneSettings(flops=budget.flops, parameters=weights, steps=_ROUNDS))


def _splits(task: Task, data: Any, validation: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Ways to set validation data aside: several if there are few examples."""
    first = held_out(task, data, validation, seed)
    yield first
    if validation is None and first[1] is not None and len(first[1]) < _FEW:
        for number in range(1, _SPLITS):
            yield held_out(task, data, None, derive(seed, "split", number))


def fit(
    network: NetworkSource,
    data: Any,
    recipe: Recipe,
    task: Task | None = None,
    layout: Layout | None = None,
    num_data: int | None = None,
    validation: Any = None,
    device: torch.device | None = None,
) -> Fitted:
    """A first network, its layout and the data, if they go together and with the recipe.

    What does not fit is refused here, before anything runs or is written.
    """
    seed = derive(recipe.seed, "chain", 0)
    blank = initial_network(network, 0, seed)
    layout = _layout(blank, layout, recipe)
    task = task or recipe.task or task_for(data)
    training = task.training(
        data,
        seed=recipe.seed,
        outputs=layout.outputs.size,
        num_data=num_data,
        validation=validation,
        dtype=next(blank.parameters()).dtype,
    )
    _check_chains_differ(network, blank, recipe)
    blank = training.task.prepared(blank)
    _check_budget(recipe, blank, layout, training.batches(recipe.chain.batch_size).steps)
    rehearse(training, blank)
    for stage in (recipe.chain, recipe.retrain):
        if stage is not None:
            training.batches(stage.batch_size)
            if stage.augment is not None:
                rehearse_augmentation(training, stage.augment)
    _check_width(training.task, layout)
    short = [
        f"{name}.autocast"
        for name, stage in (("chain", recipe.chain), ("retrain", recipe.retrain))
        if stage is not None and stage.autocast
    ]
    if short:
        rehearse_autocast(training, blank, short, device or torch.device("cpu"))
    return Fitted(network, blank, layout, training)


def _layout(blank: nn.Module, layout: Layout | None, recipe: Recipe) -> Layout:
    if layout is None:
        layout = layout_of(blank, recipe.grouping)
    elif recipe.grouping is not None or not layout.families:
        layout = grouped(layout, recipe.grouping or "outgoing")
    layout.check(dict(blank.named_parameters()))
    if not layout.matrices:
        raise InputError("the layout has no matrices: say what a prediction multiplies by")
    return layout


def _check_budget(recipe: Recipe, blank: nn.Module, layout: Layout, steps: int) -> None:
    """A budget must leave every member at least one unit in every layer."""
    how = recipe.prune
    if how is None or how.flops is None:
        return
    samples = recipe.chain.chains * len(recipe.chain.steps_to_collect(steps))
    ((flops, _),) = how.model_copy(update={"steps": 1}).shares(1 if recipe.choose else samples)
    dense = Member.dense(blank, layout).cost.flops
    least = least_flops(dict(blank.named_parameters()), layout) / dense
    if flops is not None and flops < least:
        each = math.ceil(1e4 * least * how.flops / flops) / 1e4
        raise InputError(
            f"prune.flops = {how.flops:g} is too small: with one unit in every layer such networks "
            f"take at least {each:g} of the dense one's FLOPs"
        )


def _check_width(task: Task, layout: Layout) -> None:
    """A network of the user's own may take any width; its layout does not."""
    features = task.sizes[0]
    if features and layout.inputs is not None and layout.inputs.size != features:
        raise InputError(
            f"the data has {features} features, the network's first layer {layout.inputs.size}"
        )


def _check_chains_differ(network: NetworkSource, blank: nn.Module, recipe: Recipe) -> None:
    by_chance = (
        recipe.chain.sampler.temperature > 0
        or recipe.chain.augment is not None
        or any(isinstance(module, nn.Dropout) and module.p for module in blank.modules())
    )
    if recipe.chain.chains > 1 and not by_chance:
        other = initial_network(network, 1, derive(recipe.seed, "chain", 1))
        if all(map(torch.equal, blank.parameters(), other.parameters())):
            raise InputError(
                "the function that makes networks gives every chain the same weights, so that at "
                "temperature 0 all would be the same: let it draw new ones each time"
            )


def _run_folder(
    folder: str | Path | None, samples: str | Path | None, recipe: Recipe
) -> RunFolder | None:
    if folder is None:
        if samples is not None:
            raise InputError("samples_folder needs a run folder beside it")
        return None
    return RunFolder(Path(folder), Path(samples) if samples is not None else None, recipe.code)


@contextmanager
def _opened(run: RunFolder | None, recipe: Recipe) -> Iterator[None]:
    """Lock the run and compute as it was begun: another number of threads would change bits."""
    if run is None:
        yield
        return
    with run.locked():
        threads = run.claim(recipe)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _claim_chain(run: RunFolder, fitted: Fitted, recipe: Recipe) -> dict[str, Any]:
    """Tie the chain's folder to what its files depend on; not to how many chains there are.

    What the stages after it depend on is returned.
    """
    blank, layout = fitted.blank, fitted.layout
    description = f"{blank}\n{layout.spaces}\n{layout.slots}\n{layout.families}"
    identity = {
        "network": _digest(without_addresses(description)),
        "initial weights": tensor_digest({n: p.detach() for n, p in blank.named_parameters()}),
        "task": _digest(json.dumps(described_task(fitted.task), sort_keys=True)),
        "data": fitted.training.fingerprint(),
        "prior": recipe.model_dump(mode="json")["prior"],
        "chain": recipe.chain.model_dump(mode="json", exclude={"chains"}),
        "seed": recipe.seed,
        "random streams": STREAMS,
    }
    run.chain.claim(identity)
    after = recipe.model_dump(mode="json", include={"prune", "retrain"})
    return {**identity, **after, "chains": recipe.chain.chains}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _findings(
    ensemble: Ensemble, history: History, recipe: Recipe, held: Evaluation | None
) -> list[Finding]:
    """What the history and the members' predictions say about the recipe."""
    burn_in = recipe.chain.burn_in
    if held is None or len(ensemble) < 2:
        return diagnose(history.epochs, burn_in=burn_in, jumps=history.jumps)
    evidence, _ = evidence_of(ensemble, held)
    diversity = float(ensemble.task.diversity(evidence).double().mean())
    return diagnose(
        history.epochs,
        burn_in=burn_in,
        jumps=history.jumps,
        diversity=diversity,
        diversity_text=ensemble.task.diversity_text(diversity, held.name),
        seen=held.seen,
    )
