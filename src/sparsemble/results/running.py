"""A recipe run in a folder and measured: from its names of data and network to a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from sparsemble.data import Split
from sparsemble.engines import Engine
from sparsemble.ensemble import Budget
from sparsemble.errors import InputError
from sparsemble.learning import Learned, learn, plan
from sparsemble.learning.fitting import Fitted, fit, held_out
from sparsemble.learning.planning import check_planned
from sparsemble.recipes import Recipe
from sparsemble.results.result import Result, known_result, write_result
from sparsemble.runs import RunFolder, provenance
from sparsemble.runs.folder import is_run
from sparsemble.stages import Callback
from sparsemble.structure import Layout
from sparsemble.tasks import Score, Task, task_for
from sparsemble.team import agreed, is_first, team_here


@dataclass(frozen=True)
class Ingredients:
    """What a recipe names, made ready: data in parts, their task, a way to build the network."""

    recipe: Recipe
    split: Split
    task: Task

    def network(self) -> nn.Module:
        """A freshly initialised network."""
        assert self.recipe.network is not None
        return self.recipe.network.made(*self.task.sizes)

    @property
    def layout(self) -> Layout | None:
        """The network's layout, if it brings one."""
        assert self.recipe.network is not None
        return self.recipe.network.layout()

    def fit(self) -> Fitted:
        """All of it, if it goes together."""
        train, validation = self.split.train, self.split.validation
        if self.recipe.choose:
            train, validation = held_out(self.task, train, validation, self.recipe.seed)
        return fit(self.network, train, self.recipe, self.task, self.layout, validation=validation)


def ingredients_of(recipe: Recipe, data_folder: Path | None = None) -> Ingredients:
    """Load what a recipe names; this runs code of the user's own if it names some."""
    if recipe.data is None or recipe.network is None:
        raise InputError(f"recipe {recipe.name!r} has no [data] or no [network] section")
    split = recipe.data.load(data_folder)
    task = recipe.task or task_for(split.train)
    return Ingredients(recipe, split, task.training(split.train, seed=recipe.seed).task)


def planned(
    recipe: Recipe,
    budget: Budget,
    folder: Path,
    *,
    epochs: int | None = None,
    data_folder: Path | None = None,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
) -> Recipe:
    """The recipe of a run for a budget, with the data and network of another recipe.

    Args:
        recipe: Says what is learned: data, network, task, how inputs are perturbed.
        budget: What the ensemble may cost.
        folder: Of the run; if it was begun already, its own recipe is given.
        epochs: How long a chain is at most; by default as long as is usual.
        data_folder: Where data sets lie.
        device: Where to compute.
        callback: Told what happens in the trials.
    """
    if is_run(folder):
        known = RunFolder(folder, code=recipe.code).recipe()
        fixed = ("data", "network", "task", "grouping")
        other = [key for key in fixed if getattr(known, key) != getattr(recipe, key)]
        if recipe.chain.augment is None and known.chain.augment is not None:
            other.append("chain.augment")
        if other:
            raise InputError(
                f"{folder} holds another run: its {' and '.join(other)} "
                f"{'differ' if len(other) > 1 else 'differs'}; use another folder (--out)"
            )
        augment, seed = recipe.chain.augment, recipe.seed
        check_planned(known, folder, budget=budget, augment=augment, seed=seed, epochs=epochs)
        return known
    given = ingredients_of(recipe, data_folder)
    found = plan(
        given.network,
        given.split.train,
        budget,
        augment=recipe.chain.augment,
        seed=recipe.seed,
        epochs=epochs,
        task=given.task,
        layout=given.layout,
        grouping=recipe.grouping,
        validation=given.split.validation,
        device=device,
        callback=callback,
        folder=RunFolder(folder).trials,
    )
    same = {key: getattr(recipe, key) for key in ("data", "network", "task")}
    return found.model_copy(
        update={**same, "name": recipe.name, "description": f"{recipe.name} for {budget.text}"}
    )


def run_recipe(
    recipe: Recipe,
    folder: Path,
    *,
    samples_folder: Path | None = None,
    data_folder: Path | None = None,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
    engine: Engine | None = None,
) -> Result:
    """Run a recipe that names its data and network, in a folder; measure the ensemble.

    Args:
        recipe: What to run; a run that is already complete is only read.
        folder: Of the run.
        samples_folder: For samples that several runs share.
        data_folder: Where data sets lie.
        device: Where to compute.
        callback: Told what happens.
        engine: Where its chains and members are worked on, if not here.
    """
    team = team_here()
    known = known_result(folder, recipe) if is_first() else None
    known = agreed(known, team)
    if known is not None:
        return known
    given = ingredients_of(recipe, data_folder)
    learned = learn(
        given.network,
        given.split.train,
        recipe,
        task=given.task,
        layout=given.layout,
        folder=folder,
        samples_folder=samples_folder,
        validation=given.split.validation,
        device=device,
        callback=callback,
        progress=False,  # the callback shows it, if anyone is to look
        on=engine,
    )
    result = _written(given, learned, RunFolder(folder)) if is_first() else None
    common = agreed(result, team)
    assert common is not None, "the first process has one"
    return common


def _written(given: Ingredients, learned: Learned, folder: RunFolder) -> Result:
    """The ensemble measured, and the result kept in the run's folder."""
    task = learned.ensemble.task
    scores = {
        name: learned.ensemble.evaluate(task.evaluation(part.data, part.name))
        for name, part in given.split.measured.items()
    }
    result = _measured(given.recipe, learned, scores, given.split.notes, folder)
    write_result(result, folder.result)
    return result


def _measured(
    recipe: Recipe,
    learned: Learned,
    scores: dict[str, Score],
    notes: Sequence[str],
    folder: RunFolder,
) -> Result:
    ensemble = learned.ensemble
    costs = [member.cost for member in ensemble]
    total = ensemble.cost
    return Result(
        recipe=recipe,
        metrics=list(ensemble.task.metrics),
        log_score=ensemble.task.log_score,
        scores=scores,
        training_notes=list(notes),
        parameters=total.parameters,
        flops=total.flops,
        parameters_ratio=total.parameters_ratio,
        flops_ratio=total.flops_ratio,
        disk_bytes=sum(file.stat().st_size for file in folder.ensemble.iterdir()),
        member_parameters=[cost.parameters for cost in costs],
        member_flops=[cost.flops for cost in costs],
        member_shapes=[cost.shapes for cost in costs],
        structures=[cost.structure for cost in costs],
        rollbacks=len(learned.history.rollbacks),
        findings=learned.findings,
        seconds=learned.seconds,
        training=learned.training,
        learning=learned.history.samples,
        candidates=learned.candidates,
        chosen=learned.chosen,
        provenance=folder.begun() | {"finished by": provenance()["commit"]},
    )
