"""Packing: a masked tensor as its kept values and one bit a position."""

from __future__ import annotations

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
    values = tensor.detach().cpu()[mask]
    return values, torch.from_numpy(np.packbits(mask.numpy().reshape(-1)))


def unpack(values: Tensor, bits: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The tensor and the mask that `pack` took apart."""
    count = int(np.prod(shape))
    if bits.dtype != torch.uint8 or bits.shape != (-(-count // 8),):
        raise CorruptFileError(f"a mask of {tuple(bits.shape)} bytes does not fit shape {shape}")
    flags = np.unpackbits(bits.numpy(), count=count).astype(bool)
    mask = torch.from_numpy(flags).view(shape)
    if values.ndim != 1 or int(mask.count_nonzero()) != len(values):
        raise CorruptFileError(f"{tuple(values.shape)} values do not fit a mask of shape {shape}")
    tensor = values.new_zeros(shape)
    tensor[mask] = values
    return tensor, mask
