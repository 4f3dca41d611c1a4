"""Settings that fit themselves: from a budget and data to a recipe, by short trials.

Every trial is a short chain from the same initial weights; its mean over the second half is judged
on validation data. Another setting is taken if it does better by more than the standard error of
the difference, so that small data, which cannot tell, leave what is usual.

- *Learning rate*: a ladder upwards, without prior and noise, until it gets worse.
- *Penalty*: a few values of the prior's own rate, `N·penalty`, which hardly depends on how many
  examples there are.
- *Temperature*: a few ratios of a step's noise to its gradient part. The posterior's own
  temperature of 1 can drown what small data say; none at all costs calibration.
- *Length*: windows of a fixed number of steps, until their means stop getting better; two chains
  if they are short and the network can be given other weights to begin with.
- *Members, sparsity, retraining*: chosen afterwards, on validation data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsemble.augmentations import Augmentation
from sparsemble.augmentations.augmentation import augmentation_of
from sparsemble.caller_modes import in_own_modes
from sparsemble.devices import usable_device
from sparsemble.ensemble import Budget
from sparsemble.errors import InputError
from sparsemble.learning.describing import Tracer
from sparsemble.learning.fitting import fit, held_out
from sparsemble.learning.trials import Trial, Trials
from sparsemble.priors import GroupSparse, NoPrior, Prior
from sparsemble.recipes import Recipe
from sparsemble.recipes.recipe import AnyGrouping
from sparsemble.samplers import Constant, Exponential, SGLDSettings
from sparsemble.seeds import derive
from sparsemble.stages import (
    Callback,
    ChainSettings,
    DivergenceSettings,
    PruneSettings,
    RetrainSettings,
)
from sparsemble.stages.starting import NetworkSource, initial_network
from sparsemble.structure import Layout
from sparsemble.tasks import Task, Training, task_for

_LADDER = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Learning rates."""
_RATES = (0.1, 0.03, 0.3, 1.0)
"""Of the prior's density, `N·penalty`; others must do better than the first."""
_NOISES = (0.3, 1.0, 3.0)
"""Ratios of noise to gradient, likewise."""
_FEWEST_STEPS, _MOST_STEPS = 500, 5000
"""Of a trial; between them it takes an eighth of the chain's."""
_GUESS = 1e-3
"""The temperature at which noise and gradient are first compared."""
_WINDOWS = 20
_CLIP = 5.0
_EVERY = 5


_FEW = 300
"""Examples set aside that say too little by themselves,"""
_SPLITS = 5
"""so that settings are found on as many choices of them."""
_ROUNDS = 3
"""Of pruning."""
_SURE = 3
"""Epochs at zero before a unit leaves a chain, at least."""
_SHORT = 20_000
"""Steps of a chain that there is time to run twice: members of two chains differ more."""


@in_own_modes
def plan(
    network: NetworkSource,
    data: Any,
    budget: Budget,
    *,
    augment: Augmentation | Callable[[Tensor], Tensor] | None = None,
    seed: int = 0,
    epochs: int | None = None,
    task: Task | None = None,
    layout: Layout | None = None,
    grouping: AnyGrouping | None = None,
    num_data: int | None = None,
    validation: Any = None,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
    folder: Path | None = None,
    tracer: Tracer | None = None,
) -> Recipe:
    """A recipe for a budget, whose settings short trials have found.

    Args:
        network: As for `learn`.
        data: As for `learn`.
        budget: What the ensemble may cost.
        augment: How inputs are perturbed.
        seed: Of the trials, and of the recipe.
        epochs: As for `learn`.
        task: As for `learn`.
        layout: As for `learn`.
        grouping: Which weights form a group; by default what is usual for the network.
        num_data: As for `learn`.
        validation: What settings are chosen on; by default a part of the training data.
        device: Where to compute.
        callback: Told what happens in the trials.
        folder: Where trials are kept, so that none is run again if planning is stopped.
        tracer: Has traced the network already, perhaps.
    """
    if epochs is not None and (not isinstance(epochs, int) or epochs < 1):
        raise InputError(f"epochs = {epochs!r}: give a whole number, 1 at least")
    task = task or task_for(data)
    if augment is not None and not isinstance(augment, Augmentation):
        augment = augmentation_of(augment)
    prune = PruneSettings(
        flops=budget.share_of_flops,
        parameters=budget.parameters,
        bytes=budget.bytes,
        latency=budget.latency,
    )
    trial = Recipe(
        seed=seed,
        grouping=grouping,
        chain=ChainSettings(schedule=Constant(lr=0.01), augment=augment),
        prune=prune,
        choose=True,
    )
    device = usable_device(device)
    tracer = tracer or Tracer()
    splits = [
        fit(network, rest, trial, task, layout, num_data, held, device, tracer)
        for rest, held in _splits(task, data, validation, seed)
    ]
    if splits[0].training.judged() is None:
        raise InputError("settings are chosen on validation data: give some")
    trials = Trials(splits, seed=seed, device=device, callback=callback, folder=folder)
    planner = Planner(
        splits[0].training,
        trials,
        augment=augment,
        seed=seed,
        epochs=epochs,
        chains=2 if _can_begin_anew(network, seed) else 1,
    )
    found = planner.recipe(prune.model_copy(update={"steps": _ROUNDS}))
    return found.model_copy(update={"grouping": grouping})


def check_planned(
    known: Recipe,
    folder: str | Path,
    *,
    budget: Budget | None,
    augment: Augmentation | Callable[[Tensor], Tensor] | None,
    seed: int,
    epochs: int | None = None,
) -> None:
    """Raise `InputError` if the recipe of a run was found for something else than is asked for now.

    Args:
        known: The recipe that was found.
        folder: Of the run.
        budget: What is asked for now; what is not said is not compared.
        augment: Likewise.
        seed: Of the recipe.
        epochs: As for `learn`.
    """
    how = known.prune
    pairs: dict[str, tuple[Any, Any]] = {"seed": (known.seed, seed)}
    if budget is not None:
        pairs["flops"] = (how and how.flops, budget.share_of_flops)
        pairs["latency"] = (how and how.latency, budget.latency)
        pairs["parameters"] = (how and how.parameters, budget.parameters)
        pairs["bytes"] = (how and how.bytes, budget.bytes)
    if augment is not None:
        asked = augment if isinstance(augment, Augmentation) else augmentation_of(augment)
        pairs["augment"] = (known.chain.augment, asked)
    if epochs is not None:
        windows, window = _windows(epochs)
        pairs["epochs"] = (known.chain.epochs, windows * window)
    for name, (before, now) in pairs.items():
        if before != now:
            raise InputError(
                f"{folder} holds a run {_having(name, before)}, not {_having(name, now)}; ask for "
                "the same again, or use another folder"
            )


def _having(name: str, value: Any) -> str:
    return f"without {name}" if value is None else f"with {name} = {value}"


def _splits(task: Task, data: Any, validation: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Ways to set validation data aside: several if there are few examples."""
    first = held_out(task, data, validation, seed)
    yield first
    if validation is None and first[1] is not None and len(first[1]) < _FEW:
        for number in range(1, _SPLITS):
            yield held_out(task, data, None, derive(seed, "split", number))


class Planner:
    """Finds the settings for one network and its data.

    Args:
        training: What is learned from.
        trials: Run for every setting that is looked for.
        augment: How inputs are perturbed, in chain and retraining.
        seed: Of the recipe.
        epochs: How long a chain is at most; by default as long as is usual.
        chains: How many there are if they are short.
    """

    def __init__(
        self,
        training: Training,
        trials: Trials,
        *,
        augment: Augmentation | None,
        seed: int,
        epochs: int | None = None,
        chains: int = 2,
    ) -> None:
        self._trials = trials
        self._batch_size = training.usual_batch_size()
        self._augment = augment
        self._seed = seed
        self._epochs = epochs
        self._chains = chains
        self._batches = training.batches(self._batch_size)

    def recipe(self, prune: PruneSettings) -> Recipe:
        """Everything found, for a budget that `prune` says."""
        lr = self._lr()
        penalty, temperature = self._penalty_and_temperature(lr)
        steps = self._batches.steps
        windows, window = _windows(self._length())
        return Recipe(
            name="automatic",
            seed=self._seed,
            prior=GroupSparse(penalty=penalty),
            chain=ChainSettings(
                sampler=SGLDSettings(temperature=temperature, noise="rademacher"),
                schedule=Constant(lr=lr),
                batch_size=self._batch_size,
                epochs=window * windows,
                chains=self._chains if window * windows * steps <= _SHORT else 1,
                burn_in=window * min(2, windows - 1),
                interval=window,
                average_every=_EVERY,
                every=_EVERY if steps * window >= 10 * _EVERY else 1,
                prior_step="proximal",
                patience=4,
                shed_after=max(window, _SURE),
                augment=self._augment,
                clip=_CLIP,
            ),
            prune=prune,
            retrain=RetrainSettings(
                schedule=Exponential(lr=lr / 2, factor=_falling(2 * window)),
                epochs=2 * window,
                batch_size=self._batch_size,
                clip=_CLIP,
                augment=self._augment,
                targets=0.5,
            ),
            choose=True,
        )

    def _length(self) -> int:
        """Epochs at most: many for small data, which are quickly gone through."""
        if self._epochs is not None:
            return self._epochs
        steps = self._batches.steps
        return round(min(max(50_000 / steps, 12), max(200, 4000 / steps)))

    def _lr(self) -> float:
        """The best rate of the ladder, which is climbed until it gets worse twice."""
        best: Trial | None = None
        chosen, failed = _LADDER[0], 0
        for lr in _LADDER:
            trial = self._trial(lr, temperature=0.0, prior=NoPrior())
            if trial is None:
                break
            if trial.is_better_than(best):
                best, chosen, failed = trial, lr, 0
            else:
                failed += 1
            if failed == 2:
                break
        if best is None:
            raise InputError(
                f"even at a learning rate of {_LADDER[0]} the loss of this network diverges: scale "
                "the inputs, or give a recipe"
            )
        return chosen

    def _penalty_and_temperature(self, lr: float) -> tuple[float, float]:
        """The best penalty at a little noise, then the best noise beside it."""
        penalty = _RATES[0] / self._batches.num_data
        best: Trial | None = None
        for rate in _RATES:
            prior = GroupSparse(penalty=rate / self._batches.num_data)
            trial = self._trial(lr, _GUESS, prior)
            if trial is not None and trial.is_better_than(best):
                best, penalty = trial, prior.penalty
        if best is None or not 0 < best.noise_to_drift < math.inf:
            return penalty, 0.0
        unit = _GUESS / best.noise_to_drift**2
        temperature, best = 0.0, None
        for ratio in _NOISES:
            trial = self._trial(lr, unit * ratio**2, GroupSparse(penalty=penalty))
            if trial is not None and trial.is_better_than(best):
                best, temperature = trial, unit * ratio**2
        return penalty, temperature

    def _trial(self, lr: float, temperature: float, prior: Prior) -> Trial | None:
        """A short chain by these settings; `None` if it diverged."""
        whole = self._length() * self._batches.steps
        steps = min(max(whole / 8, _FEWEST_STEPS), _MOST_STEPS, whole)
        epochs = max(math.ceil(steps / 2 / self._batches.steps), 1)
        settings = ChainSettings(
            sampler=SGLDSettings(temperature=temperature, noise="rademacher"),
            schedule=Constant(lr=lr),
            batch_size=self._batch_size,
            epochs=2 * epochs,
            burn_in=epochs,
            interval=epochs,
            augment=self._augment,
            clip=_CLIP,
            divergence=DivergenceSettings(max_rollbacks=0),
        )
        return self._trials.run(prior, settings)


def _can_begin_anew(network: NetworkSource, seed: int) -> bool:
    """Can a second chain begin with other weights than the first?"""
    try:
        initial_network(network, 1, derive(seed, "chain", 1))
    except InputError:
        return False
    return True


def _windows(length: int) -> tuple[int, int]:
    """How many windows a chain of so many epochs at most has, and the epochs of each.

    >>> _windows(12), _windows(39), _windows(200)
    ((12, 1), (19, 2), (20, 10))
    """
    each = max(round(length / _WINDOWS), 1)
    return length // each, each


def _falling(epochs: int) -> float:
    """The factor by which a rate falls to a twentieth over so many epochs."""
    return float(20 ** (1 / max(epochs - 1, 1)))
