"""Batches of a file, made anew whenever they are asked for: what an evaluation of a file reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from torch import Tensor

from sparsemble.data import Inputs
from sparsemble.data.opening import can_be_read_again
from sparsemble.errors import InputError

Batch = tuple[Inputs, Tensor]


class FileBatches:
    """All batches from the file's beginning, whenever it is called; of a pipe once.

    The first one is read at once, so that a file that does not fit is refused where it is named.

    Args:
        batches: Reads them.
        path: The file, or the pipe.
    """

    def __init__(self, batches: Callable[[], Iterator[Batch]], path: Path) -> None:
        self._batches, self._path = batches, path
        begun = batches()
        first = next(begun, None)
        self._begun: Iterator[Batch] | None = chain(() if first is None else (first,), begun)

    def __call__(self) -> Iterable[Batch]:
        """Inputs and targets."""
        begun, self._begun = self._begun, None
        if begun is not None:
            return begun
        if not can_be_read_again(self._path):
            raise InputError(f"{self._path} is a pipe, which can be read only once: name a file")
        return self._batches()
