"""What the files of a run folder say besides tensors, checked before any of it is used.

A checksum tells that a file is whole, not that its numbers make sense: anybody can compute one.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from sparsemble.devices import MOST_THREADS
from sparsemble.recipes import Recipe
from sparsemble.settings import Settings


def _beside(name: Any) -> Any:
    if name is not None and not (isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name)):
        raise ValueError("is not a folder beside it")
    return name


Threads = Annotated[int, Field(strict=True, ge=1, le=MOST_THREADS)]
Count = Annotated[int, Field(strict=True, ge=0)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class Note(Settings):
    """What is used; anything else there is for people, or only compared."""

    model_config = ConfigDict(extra="allow")


class RunNote(Note):
    """Of `run.json`."""

    recipe: Recipe
    threads: Threads
    device: str = "cpu"
    samples: Annotated[str | None, BeforeValidator(_beside)] = None


class StageNote(Note):
    """Of `stage.json`."""

    threads: Threads


class SampleNote(Note):
    """Of a sample: where it was taken."""

    chain: Count
    step: Count


class WatchNote(Note):
    """Of a `DivergenceWatch`."""

    smoothed: Finite | None
    best: Finite | None


class MeanNote(Note):
    """Of a `WindowMean`."""

    since: Count
    count: Count


class StateNote(Note):
    """Of a state that a chain can return to."""

    step: Count
    epoch_loss: Finite
    epoch_seconds: NotNegative
    epoch_flops: NotNegative = 0.0
    epoch_examples: Count = 0
    watch: WatchNote
    mean: MeanNote | None = None


class CheckpointNote(StateNote):
    """Of a checkpoint."""

    chain: Count
    good: StateNote
    earlier: StateNote | None = None
    rollbacks: Count
    lr_factor: Annotated[float, Field(strict=True, gt=0, le=1)]
    trace_lines: Count


class FailureNote(Note):
    """Why nothing came of a run that another is compared with."""

    reason: str


class LatencyNote(Note):
    """How long predictions of the candidates took."""

    latencies: list[float]
