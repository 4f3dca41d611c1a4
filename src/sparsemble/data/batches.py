"""Mini-batches in an order that (seed, epoch, variant) fix, so a run can be resumed anywhere.

`num_data` is the N of the posterior: the number of units the mean loss averages over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, SubsetRandomSampler

from sparsemble.data.arguments import Inputs
from sparsemble.data.dataset import Dataset
from sparsemble.data.inputs import any_inputs
from sparsemble.errors import InputError
from sparsemble.seeds import derive
from sparsemble.streams import borrowed_streams


class Batches(Protocol):
    """A training set in mini-batches."""

    num_data: int
    steps: int
    """Batches in an epoch."""

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Inputs, Tensor]]:
        """The batches of epoch `number` from `start` on; `variant` changes their order."""
        ...


class ArrayBatches:
    """Mini-batches of arrays held in memory, in a fresh order every epoch.

    Examples with weights are drawn as often as is due to them: the mean loss is then weighted.
    """

    def __init__(
        self, data: Dataset, batch_size: int, seed: int, dtype: torch.dtype | None = None
    ) -> None:
        inputs = data.scaled()
        self.inputs = inputs if dtype is None else inputs.to(dtype)
        self.targets = data.targets
        self.weights = data.weights
        self.seed = seed
        self.num_data = len(data) if data.weights is None else int(data.weights.count_nonzero())
        self.batch_size = min(batch_size, self.num_data)
        self._sizes = _sizes(self.num_data, self.batch_size)
        self.steps = len(self._sizes)

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Inputs, Tensor]]:
        """The batches of epoch `number` from `start` on; `variant` changes their order."""
        seed = derive(self.seed, "epoch", number, variant)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(self.targets), generator=generator)
        if self.weights is not None:
            drawn = order.repeat_interleave(copies(self.weights[order], self.num_data, generator))
            order = drawn[torch.randperm(len(drawn), generator=generator)]
        for rows in order.split(self._sizes)[start:]:
            yield self.inputs.index_select(0, rows), self.targets.index_select(0, rows)


def _sizes(count: int, most: int) -> list[int]:
    """Examples in every batch; a last one alone, which has no variance, goes with those before.

    >>> _sizes(8, 3), _sizes(7, 3), _sizes(1, 3)
    ([3, 3, 2], [3, 4], [1])
    """
    whole, rest = divmod(count, most)
    if rest == 1 and whole:
        return [most] * (whole - 1) + [most + 1]
    return [most] * whole + [rest] * (rest > 0)


def copies(weights: Tensor, total: int, generator: torch.Generator | None = None) -> Tensor:
    """How often examples are taken, `total` in all, so that each counts by its weight.

    Each is taken the number of times that is due to it, rounded up or down so that it is right on
    average over what the generator draws; without one, always in the same way.

    >>> copies(torch.tensor([1.0, 0.0, 2.0, 0.5, 0.5]), 4)
    tensor([1, 0, 2, 1, 0])
    """
    due = weights.double().cumsum(0)
    start = 0.5 if generator is None else float(torch.rand((), generator=generator))
    edges = (due / due[-1] * total + start).floor().long()
    return edges.diff(prepend=edges.new_zeros(1))


class LoaderBatches:
    """The batches of a user's `DataLoader`, which yields pairs of inputs and targets.

    The loader draws from PyTorch's random stream reseeded every epoch (its own `generator`, if it
    has one, too), so resuming replays the epoch and skips to the position. Randomness from
    elsewhere, NumPy's for instance, is the caller's to fix.
    """

    def __init__(
        self,
        loader: DataLoader[Any],
        seed: int,
        *,
        targets: Callable[[Any, str], Tensor],
        inputs: Callable[[Any, Any, str], Inputs] = any_inputs,
        num_data: int | None = None,
        dtype: torch.dtype | None = torch.float32,
    ) -> None:
        """`targets` checks those of a batch, given where they come from; `inputs`, too, given the
        targets. Without a `dtype` inputs stay as they are."""
        self.loader = loader
        self.seed = seed
        self.targets = targets
        self.inputs = inputs
        self.dtype = dtype
        self.num_data = self._count(loader) if num_data is None else num_data
        self.steps = self._steps(loader)
        if self.steps < 1 or self.num_data < 1:
            raise InputError("the data loader is empty: it yields no batch")

    @staticmethod
    def _count(loader: DataLoader[Any]) -> int:
        try:
            if isinstance(loader.sampler, SubsetRandomSampler):
                return len(loader.sampler)
            return len(loader.dataset)  # type: ignore[arg-type]
        except TypeError:
            raise InputError(
                "the data loader's dataset has no length: give num_data, the number of examples"
            ) from None

    def _steps(self, loader: DataLoader[Any]) -> int:
        try:
            return len(loader)
        except TypeError:
            return -(-self.num_data // (loader.batch_size or 1))

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Inputs, Tensor]]:
        """The batches of epoch `number` from `start` on; `variant` changes their order."""
        batches = in_fixed_order(self.loader, derive(self.seed, "loader", number, variant))
        for position in range(self.steps):
            batch = next(batches, None)
            checked = self._checked(batch, f"batch {position} of the data loader")
            if position >= start:
                yield checked

    def _checked(self, batch: Any, source: str) -> tuple[Inputs, Tensor]:
        if batch is None:
            raise InputError(f"{source} is missing: the loader yields fewer than {self.steps}")
        if not isinstance(batch, list | tuple) or len(batch) != 2:
            raise InputError(f"{source} is not a pair of inputs and targets")
        inputs, targets = self.inputs(batch[0], batch[1], source), self.targets(batch[1], source)
        return inputs if self.dtype is None else inputs.to(self.dtype), targets


def in_fixed_order(loader: DataLoader[Any], seed: int) -> Iterator[Any]:
    """A loader's batches in the order that a seed fixes; nobody else's random numbers are used."""
    inner = torch.Generator().manual_seed(seed).get_state()
    chosen_by = (loader, loader.sampler, loader.batch_sampler)
    inside = getattr(loader.batch_sampler, "sampler", None)
    for owner in (*chosen_by, inside):
        generator = getattr(owner, "generator", None)
        if generator is not None:
            generator.manual_seed(seed)
    batches: Iterator[Any] | None = None
    while True:
        with borrowed_streams():
            torch.set_rng_state(inner)
            batches = iter(loader) if batches is None else batches
            batch = next(batches, None)
            inner = torch.get_rng_state()
        if batch is None:
            return
        yield batch
