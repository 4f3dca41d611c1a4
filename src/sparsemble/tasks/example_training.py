"""Examples to learn from: arrays in memory, a torch `Dataset`, or a `DataLoader`."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from sparsemble.data import (
    Arguments,
    ArrayBatches,
    Batches,
    Dataset,
    Inputs,
    LoaderBatches,
    Scaling,
)
from sparsemble.data.fingerprints import fingerprint
from sparsemble.tasks.task import Evaluation

if TYPE_CHECKING:
    from sparsemble.tasks.examples import ExampleTask

_WATCHED = 2000
"""Examples that a growing ensemble is watched on at most."""
_MANY = 10_000
"""Examples that make large data."""
FEW = 2
"""Examples that show what a network takes."""


class ExampleTraining:
    """Examples to learn from."""

    def __init__(
        self,
        task: ExampleTask,
        data: Dataset | DataLoader[Any] | TorchDataset[Any],
        seed: int,
        num_data: int | None,
        dtype: torch.dtype,
    ) -> None:
        self._data = data
        self._seed = seed
        self._num_data = num_data
        self._dtype = dtype
        self.validation: Evaluation | None = None
        self.task = task
        if not isinstance(data, Dataset):
            self.task = task.for_batches(self.batches(1))

    def batches(self, batch_size: int) -> Batches:
        """Mini-batches of the training data; a loader brings its own size."""
        if isinstance(self._data, Dataset):
            return ArrayBatches(self._scaled, batch_size, self._seed, self._dtype)
        loader = self._data
        if not isinstance(loader, DataLoader):
            loader = DataLoader(loader, batch_size, shuffle=True)
        return self._loaded(loader, self._dtype)

    def _loaded(self, loader: DataLoader[Any], dtype: torch.dtype | None) -> LoaderBatches:
        return LoaderBatches(
            loader,
            self._seed,
            targets=self.task.checked_targets,
            inputs=self.task.batch_inputs,
            num_data=self._num_data,
            dtype=dtype,
        )

    def as_given(self) -> tuple[Inputs, Tensor]:
        """A few examples, neither scaled nor in the precision of the weights."""
        if isinstance(self._data, Dataset):
            inputs, targets = self._data.inputs, self._data.targets
        else:
            loader = self._data
            if not isinstance(loader, DataLoader):
                loader = DataLoader(loader, FEW)
            inputs, targets = next(self._loaded(loader, None).epoch(0))
        return inputs[:FEW], targets[:FEW]

    @cached_property
    def _scaled(self) -> Dataset:
        """The examples as the network sees them, computed once."""
        assert isinstance(self._data, Dataset)
        inputs = self._data.scaled().to(self._dtype)
        return replace(self._data, inputs=inputs, scaling=Scaling.none())

    def fingerprint(self) -> str:
        """What identifies the training data; of a loader its first batch and its length."""
        length = ""
        if isinstance(self._data, Dataset):
            scaling = self._data.scaling
            given = [self._data.inputs, self._data.targets, scaling.shift, scaling.factor]
            if self._data.weights is not None:
                given.append(self._data.weights)
        else:
            batches = self.batches(1)
            length = f"{batches.num_data} {batches.steps}"
            given = list(next(batches.epoch(0)))
        names = repr(given[0].names) if isinstance(given[0], Arguments) else ""
        return fingerprint(given, length + names)

    def usual_batch_size(self) -> int:
        """Small for small data, so that an epoch has enough steps."""
        return 32 if self.batches(1).num_data < _MANY else 100

    def judged(self) -> Evaluation | None:
        """All validation examples, if there are any."""
        return self.validation

    def watched(self) -> Evaluation | None:
        """Validation examples, or else training ones; a loader's are not at hand."""
        if self.validation is not None:
            held = self.validation
            if not isinstance(held.data, Dataset):
                return held
            name, data, seen = "validation examples", held.data, False
        elif isinstance(self._data, Dataset):
            name, data, seen = "training examples", self._data, True
        else:
            return None
        return replace(self.task.evaluation(data.pick(slice(_WATCHED)), name), seen=seen)
