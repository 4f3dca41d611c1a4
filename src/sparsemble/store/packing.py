"""Packing: a masked tensor as kept values and one bit per position, many of them as few streams."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from sparsemble.errors import CorruptFileError


def pack(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The values where `mask` is true, and the mask as packed bits.

    >>> values, bits = pack(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.eye(2).bool())
    >>> values.tolist(), bits.tolist()
    ([1.0, 2.0], [144])
    """
    mask = mask.cpu()
    return tensor.detach().cpu()[mask], torch.from_numpy(np.packbits(mask.numpy().reshape(-1)))


def unpack(bits: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The mask of the given shape that `pack` made bits of."""
    flags = np.unpackbits(bits.numpy(), count=torch.Size(shape).numel())
    return torch.from_numpy(flags.astype(bool)).view(shape)


class StreamWriter:
    """Named streams of numbers; what is added in some order is taken back in the same order."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Tensor]] = {"values": [], "bits": [], "units": []}

    def add(self, stream: str, numbers: Tensor) -> None:
        """Append to a stream."""
        self._parts.setdefault(stream, []).append(numbers.detach().cpu())

    def tensors(self) -> dict[str, Tensor]:
        """One flat tensor per stream; index lists in 16 bits where they fit."""
        joined = {name: torch.cat(parts) for name, parts in self._parts.items() if parts}
        units = joined.get("units")
        if units is not None and int(units.max()) <= torch.iinfo(torch.int16).max:
            joined["units"] = units.to(torch.int16)
        return joined


class StreamReader:
    """Takes back what a `StreamWriter` wrote, and notices if there is too little or too much."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self._positions = dict.fromkeys(tensors, 0)

    @property
    def values(self) -> Tensor:
        """The stream of parameter values, for its dtype."""
        return self._tensors["values"]

    def take(self, stream: str, count: int) -> Tensor:
        """The next `count` numbers of a stream."""
        start = self._positions[stream]
        if count < 0 or start + count > len(self._tensors[stream]):
            raise CorruptFileError(f"the stored {stream} are fewer than the manifest needs")
        self._positions[stream] = start + count
        return self._tensors[stream][start : start + count]

    def finish(self) -> None:
        """Check that nothing is left over."""
        for stream, position in self._positions.items():
            if position != len(self._tensors[stream]):
                raise CorruptFileError(f"the stored {stream} are more than the manifest needs")
