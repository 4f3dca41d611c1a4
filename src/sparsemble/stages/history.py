"""What happened in a stage, as values: the lines of a run's trace."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch of a chain looked like.

    `loss` is the mean over the epoch's batches, and over the members if several are retrained
    together; `potential` adds the prior at the epoch's end, an estimate of U/N.
    `figure` is the loss as people read it for this task, and `metric` says what that is.
    `noise_to_drift` compares the size of the injected noise with that of the gradient step.
    `flops` are those of all its steps, a teacher's among them, `examples` what each of its
    `networks` saw; traces of older runs say nothing about that.
    """

    stage: str
    chain: int
    epoch: int
    loss: float
    potential: float
    metric: str
    figure: float
    lr: float
    noise_to_drift: float
    near_zero_groups: float
    seconds: float
    flops: float = math.nan
    examples: int = 0
    networks: int = 1


@dataclass(frozen=True)
class SampleRecord:
    """How a sample, or a retrained member, did: `alone`, and `together` with those before it.

    `metric` is what was measured (a key of the task's metrics), `on` is on what.
    """

    stage: str
    chain: int
    step: int
    members: int
    metric: str
    on: str
    alone: float
    together: float
    log_score: float | None = None
    """Of those together, lower being better: what settings are chosen by. Older records do not
    say."""


@dataclass(frozen=True)
class Jump:
    """A mean that was far worse than the iterate it ends in, which was taken instead.

    `mean` and `iterate` are their losses on the same training batches.
    """

    stage: str
    chain: int
    step: int
    mean: float
    iterate: float


@dataclass(frozen=True)
class Shed:
    """Units that left a running chain, by space: how many have `gone`, and are `left` `of` all.

    `flops` is what a step takes from there on, as a share of what the whole network did.
    """

    stage: str
    chain: int
    step: int
    epoch: int
    gone: dict[str, int]
    left: dict[str, int]
    of: dict[str, int]
    flops: float


@dataclass(frozen=True)
class Rollback:
    """A divergence that was detected and undone.

    `seconds`, `flops` and `examples` are those of the epoch that it put an end to.
    """

    stage: str
    chain: int
    step: int
    reason: str
    back_to: int
    back_to_epoch: int
    lr_factor: float
    seconds: float = field(default=math.nan, compare=False)
    flops: float = math.nan
    examples: int = 0

    def undoes(self, record: EpochRecord | SampleRecord | Jump | Shed) -> bool:
        """Did it happen in the stretch that was thrown away?"""
        if (record.stage, record.chain) != (self.stage, self.chain):
            return False
        if isinstance(record, EpochRecord):
            return record.epoch > self.back_to_epoch
        return record.step > self.back_to


Record = EpochRecord | SampleRecord | Jump | Shed | Rollback


@dataclass
class History:
    """Everything that was recorded and not undone, in order; `undone` are epochs that were."""

    epochs: list[EpochRecord] = field(default_factory=list)
    samples: list[SampleRecord] = field(default_factory=list)
    rollbacks: list[Rollback] = field(default_factory=list)
    jumps: list[Jump] = field(default_factory=list)
    sheds: list[Shed] = field(default_factory=list)
    undone: list[EpochRecord] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Take a record in; a rollback takes out what it undid."""
        if isinstance(record, EpochRecord):
            self.epochs.append(record)
        elif isinstance(record, SampleRecord):
            self.samples.append(record)
        elif isinstance(record, Jump):
            self.jumps.append(record)
        elif isinstance(record, Shed):
            self.sheds.append(record)
        else:
            self.rollbacks.append(record)
            self.undone += [r for r in self.epochs if record.undoes(r)]
            self.epochs = [r for r in self.epochs if not record.undoes(r)]
            self.samples = [r for r in self.samples if not record.undoes(r)]
            self.jumps = [r for r in self.jumps if not record.undoes(r)]
            self.sheds = [r for r in self.sheds if not record.undoes(r)]

    @classmethod
    def of(cls, records: Iterable[Record]) -> History:
        """What records say, in order."""
        history = cls()
        for record in records:
            history.add(record)
        return history

    def __add__(self, other: History) -> History:
        return History(
            self.epochs + other.epochs,
            self.samples + other.samples,
            self.rollbacks + other.rollbacks,
            self.jumps + other.jumps,
            self.sheds + other.sheds,
            self.undone + other.undone,
        )
