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
  if they are short.
- *Members, sparsity, retraining*: chosen afterwards, on validation data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsemble.augmentations import Augmentation
from sparsemble.augmentations.augmentation import augmentation_of
from sparsemble.devices import usable_device
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.ensemble.comparison import is_better, log_scores
from sparsemble.errors import DivergedError, InputError
from sparsemble.learning.fitting import Fitted, fit, held_out
from sparsemble.priors import GroupSparse, NoPrior, Prior
from sparsemble.recipes import Recipe
from sparsemble.samplers import Constant, Exponential, SGLDSettings
from sparsemble.seeds import derive
from sparsemble.stages import (
    Callback,
    ChainSettings,
    ChainState,
    DivergenceSettings,
    EpochRecord,
    PruneSettings,
    RetrainSettings,
    draw_samples,
)
from sparsemble.stages.sampling import NetworkSource
from sparsemble.structure import Layout
from sparsemble.tasks import Task, task_for

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
_SHORT = 20_000
"""Steps of a chain that there is time to run twice: members of two chains differ more."""


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
    flops = budget.share_of_flops
    trial = Recipe(
        seed=seed,
        chain=ChainSettings(schedule=Constant(lr=0.01), augment=augment),
        prune=None if flops is None else PruneSettings(flops=flops),
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
    return planner.recipe(
        PruneSettings(flops=flops, parameters=weights, latency=budget.latency, steps=_ROUNDS)
    )


def _splits(task: Task, data: Any, validation: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Ways to set validation data aside: several if there are few examples."""
    first = held_out(task, data, validation, seed)
    yield first
    if validation is None and first[1] is not None and len(first[1]) < _FEW:
        for number in range(1, _SPLITS):
            yield held_out(task, data, None, derive(seed, "split", number))


@dataclass(frozen=True, eq=False)
class Trial:
    """What a short chain gave: the log scores of its mean on validation data."""

    lr: float
    scores: Tensor
    noise_to_drift: float


class Planner:
    """Finds the settings for one network and its data.

    Args:
        splits: A network, its layout and the data, once for every way in which the latter are split
            into some to learn from and some to judge by: few examples say little, but each may say
            it in turn.
        augment: How inputs are perturbed, in chain and retraining.
        seed: Of the trials, and of the recipe.
        device: Where to compute.
        callback: Told what happens.
    """

    def __init__(
        self,
        splits: Sequence[Fitted],
        *,
        augment: Augmentation | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        callback: Callback | None = None,
    ) -> None:
        self._splits = splits
        self._batch_size = splits[0].training.usual_batch_size()
        self._augment = augment
        self._seed = seed
        self._device = device
        self._callback = callback
        self._batches = splits[0].training.batches(self._batch_size)

    def recipe(self, prune: PruneSettings) -> Recipe:
        """Everything found, for a budget that `prune` says."""
        lr = self._lr()
        penalty, temperature = self._penalty_and_temperature(lr)
        steps = self._batches.steps
        window = max(round(self._length() / _WINDOWS), 1)
        return Recipe(
            name="automatic",
            seed=self._seed,
            prior=GroupSparse(penalty=penalty),
            chain=ChainSettings(
                sampler=SGLDSettings(temperature=temperature, noise="rademacher"),
                schedule=Constant(lr=lr),
                batch_size=self._batch_size,
                epochs=window * _WINDOWS,
                chains=2 if window * _WINDOWS * steps <= _SHORT else 1,
                burn_in=window * 2,
                interval=window,
                average_every=_EVERY,
                every=_EVERY if steps * window >= 10 * _EVERY else 1,
                prior_step="proximal",
                patience=4,
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
        steps = self._batches.steps
        return round(min(max(50_000 / steps, 12), max(200, 4000 / steps)))

    def _lr(self) -> float:
        """The best rate of the ladder, which is climbed until it gets worse twice."""
        best: Trial | None = None
        failed = 0
        for lr in _LADDER:
            trial = self._trial(lr, temperature=0.0, prior=NoPrior())
            if trial is None:
                break
            best, failed = _better(trial, best), failed + 1
            if best is trial:
                failed = 0
            if failed == 2:
                break
        if best is None:
            raise InputError(
                f"even at a learning rate of {_LADDER[0]} the loss of this network diverges: scale "
                "the inputs, or give a recipe"
            )
        return best.lr

    def _penalty_and_temperature(self, lr: float) -> tuple[float, float]:
        """The best penalty at a little noise, then the best noise beside it."""
        penalty = _RATES[0] / self._batches.num_data
        best: Trial | None = None
        for rate in _RATES:
            prior = GroupSparse(penalty=rate / self._batches.num_data)
            trial = self._trial(lr, _GUESS, prior)
            if trial is not None and (best := _better(trial, best)) is trial:
                penalty = prior.penalty
        if best is None or not 0 < best.noise_to_drift < math.inf:
            return penalty, 0.0
        unit = _GUESS / best.noise_to_drift**2
        temperature, best = 0.0, None
        for ratio in _NOISES:
            trial = self._trial(lr, unit * ratio**2, GroupSparse(penalty=penalty))
            if trial is not None and (best := _better(trial, best)) is trial:
                temperature = unit * ratio**2
        return penalty, temperature

    def _trial(self, lr: float, temperature: float, prior: Prior) -> Trial | None:
        """A short chain for every split; `None` if one diverged."""
        whole = self._length() * self._batches.steps
        steps = min(max(whole / 8, _FEWEST_STEPS), _MOST_STEPS)
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
        watch = _LastEpoch(self._callback)
        try:
            scores = [self._scores(split, prior, settings, watch) for split in self._splits]
        except DivergedError:
            return None
        assert watch.record is not None
        return Trial(lr, torch.cat(scores), watch.record.noise_to_drift)

    def _scores(
        self, split: Fitted, prior: Prior, settings: ChainSettings, callback: Callback
    ) -> Tensor:
        """The log scores of a short chain's mean."""
        (sample,) = draw_samples(
            split.network,
            split.layout,
            split.task,
            split.training.batches(self._batch_size),
            prior,
            settings,
            seed=self._seed,
            device=self._device,
            callback=callback,
        )
        alone = Ensemble([split.dense(sample).to(self._device)], split.task)
        return log_scores(alone, split.training.judged())


class _LastEpoch(Callback):
    """Remembers the last epoch of a trial, and lets a callback know that steps are taken."""

    def __init__(self, callback: Callback | None) -> None:
        self._forward = callback or Callback()
        self.record: EpochRecord | None = None

    def epoch_ended(self, record: EpochRecord) -> None:
        self.record = record

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        self._forward.started("trial", chain, chains, done, total)

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        self._forward.stepped(chain, step, loss, save)


def _better(trial: Trial, best: Trial | None) -> Trial:
    """The new one, if it is clearly better than the best before."""
    return trial if best is None or is_better(trial.scores, best.scores) else best


def _falling(epochs: int) -> float:
    """The factor by which a rate falls to a twentieth over so many epochs."""
    return float(20 ** (1 / max(epochs - 1, 1)))
