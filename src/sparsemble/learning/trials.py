"""Trials: short chains whose means are judged on validation data, each kept once it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from sparsemble.ensemble import Ensemble
from sparsemble.ensemble.comparison import is_better, log_scores
from sparsemble.errors import DivergedError
from sparsemble.learning.fitting import Fitted
from sparsemble.learning.spending import StageCost, stage_cost
from sparsemble.priors import Prior
from sparsemble.seeds import STREAMS
from sparsemble.stages import (
    Callback,
    ChainSettings,
    ChainState,
    EpochRecord,
    History,
    draw_samples,
)
from sparsemble.store import inside, read_tensors, write_tensors
from sparsemble.tasks import Evaluation, described_task


@dataclass(frozen=True, eq=False)
class Trial:
    """What a short chain gave: the log scores of its mean on validation data."""

    scores: Tensor
    noise_to_drift: float

    def is_better_than(self, best: Trial | None) -> bool:
        """Clearly so, or than nothing? What is not finite is no better than that."""
        if best is None:
            return bool(self.scores.isfinite().all())
        return is_better(self.scores, best.scores)


class Trials:
    """Runs trials on one network and its data.

    Args:
        splits: A network, its layout and the data, once for every way in which the latter are split
            into some to learn from and some to judge by: few examples say little, but each may say
            it in turn.
        seed: Of the chains.
        device: Where to compute.
        callback: Told what happens.
        folder: Where trials are kept, so that none is run again if planning is stopped.
    """

    def __init__(
        self,
        splits: Sequence[Fitted],
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        callback: Callback | None = None,
        folder: Path | None = None,
    ) -> None:
        self._splits = splits
        self._seed = seed
        self._device = device
        self._callback = callback
        self._folder = folder
        self._identity = [
            splits[0].description,
            splits[0].initial_weights,
            described_task(splits[0].task),
            [split.training.fingerprint() for split in splits],
            [judged and judged.fingerprint() for judged in map(_judged, splits)],
            [seed, STREAMS],
        ]

    def run(self, prior: Prior, settings: ChainSettings) -> Trial | None:
        """A chain for every split; `None` if one diverged."""
        file = self._file(prior, settings)
        if file is not None and file.is_file():
            tensors, note = read_tensors(file)
            return None if note["diverged"] else Trial(tensors["scores"], note["noise_to_drift"])
        watch = _Watch(self._callback)
        try:
            scores = [self._scores(split, prior, settings, watch) for split in self._splits]
        except DivergedError:
            trial = None
        else:
            trial = Trial(torch.cat(scores), watch.history.epochs[-1].noise_to_drift)
        if file is not None:
            note = {
                "diverged": trial is None,
                "noise_to_drift": trial and trial.noise_to_drift,
                "cost": asdict(stage_cost("chain", watch.history)),
            }
            write_tensors(file, {} if trial is None else {"scores": trial.scores}, note)
        return trial

    def _file(self, prior: Prior, settings: ChainSettings) -> Path | None:
        """Where a trial is kept: its name is made of all that it depends on."""
        if self._folder is None:
            return None
        asked = [prior.model_dump(mode="json"), settings.what_samples_depend_on()]
        text = json.dumps([self._identity, asked], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        return inside(self._folder, f"{name}.safetensors")

    def _scores(
        self, split: Fitted, prior: Prior, settings: ChainSettings, callback: Callback
    ) -> Tensor:
        """The log scores of a chain's mean."""
        (sample,) = draw_samples(
            split.network,
            split.layout,
            split.task,
            split.training.batches(settings.batch_size),
            prior,
            settings,
            seed=self._seed,
            device=self._device,
            callback=callback,
        )
        alone = Ensemble([split.dense(sample).to(self._device)], split.task)
        return log_scores(alone, split.training.judged())


def _judged(split: Fitted) -> Evaluation | None:
    return split.training.judged()


def trials_cost(folder: Path) -> StageCost | None:
    """What the trials kept in a folder took, if there are any, but for epochs that diverged."""
    notes = [read_tensors(inside(folder, f.name))[1] for f in folder.glob("*.safetensors")]
    unknown = asdict(StageCost("", 0, None, None))  # of trials that nobody counted
    costs = [StageCost(**{**note.get("cost", unknown), "stage": "trial"}) for note in notes]
    return sum(costs[1:], costs[0]) if costs else None


class _Watch(Callback):
    """Remembers the epochs of a trial, and lets a callback know that steps are taken."""

    def __init__(self, callback: Callback | None) -> None:
        self._forward = callback or Callback()
        self.history = History()

    def epoch_ended(self, record: EpochRecord) -> None:
        self.history.add(record)

    def started(self, stage: str, chain: int, chains: int, done: int, total: int) -> None:
        self._forward.started("trial", chain, chains, done, total)

    def stepped(self, chain: int, step: int, loss: float, save: Callable[[], ChainState]) -> None:
        self._forward.stepped(chain, step, loss, save)
