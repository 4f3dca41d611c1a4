"""Mini-batches in an order that (seed, epoch, variant) fix, so a run can be resumed anywhere.

`num_data` is the N of the posterior: the number of units the mean loss averages over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sparsemble.data.dataset import Dataset, check_finite, check_labels
from sparsemble.errors import InputError
from sparsemble.seeds import derive


class Batches(Protocol):
    """A training set in mini-batches."""

    num_data: int
    steps: int
    """Batches in an epoch."""

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of epoch `number` from position `start` on; another order a variant."""
        ...


class ArrayBatches:
    """Mini-batches of arrays held in memory, in a fresh order every epoch."""

    def __init__(self, data: Dataset, batch_size: int, seed: int) -> None:
        self.inputs = data.scaled()
        self.targets = data.targets
        self.batch_size = min(batch_size, len(data))
        self.seed = seed
        self.num_data = len(data)
        self.steps = -(-len(data) // self.batch_size)

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of epoch `number` from position `start` on; another order a variant."""
        seed = derive(self.seed, "epoch", number, variant)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(self.num_data, generator=generator)
        for rows in order.split(self.batch_size)[start:]:
            yield self.inputs.index_select(0, rows), self.targets.index_select(0, rows)


class LoaderBatches:
    """The batches of a user's `DataLoader`.

    The loader draws from a random stream of its own, reseeded every epoch: resuming replays the
    epoch and skips to the position.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        seed: int,
        *,
        num_classes: int,
        num_data: int | None = None,
    ) -> None:
        self.loader = loader
        self.seed = seed
        self.num_classes = num_classes
        self.num_data = num_data or self._count(loader)
        self.steps = len(loader)
        if self.steps == 0 or self.num_data == 0:
            raise InputError("the data loader is empty: it yields no batch")

    @staticmethod
    def _count(loader: DataLoader[Any]) -> int:
        try:
            return len(loader.dataset)  # type: ignore[arg-type]
        except TypeError:
            raise InputError(
                "the data loader's dataset has no length: give num_data, the number of examples"
            ) from None

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of epoch `number` from position `start` on; another order a variant."""
        outer = torch.get_rng_state()
        torch.manual_seed(derive(self.seed, "loader", number, variant))
        batches = iter(self.loader)
        inner = torch.get_rng_state()
        torch.set_rng_state(outer)
        for position in range(self.steps):
            outer = torch.get_rng_state()
            torch.set_rng_state(inner)
            inputs, targets = next(batches)
            inner = torch.get_rng_state()
            torch.set_rng_state(outer)
            if position >= start:
                check_finite(inputs, f"batch {position} of the data loader")
                check_labels(targets, self.num_classes, f"batch {position} of the data loader")
                yield inputs, targets
