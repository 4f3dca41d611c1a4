"""Pictures as convolutions read them, whether they come as pictures or as flat rows of pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from sparsemble.errors import InputError

Shape = tuple[int, int, int]
"""Channels, height and width."""


def checked_shape(shape: Sequence[int]) -> Shape:
    """The shape as a tuple, if it is one of pictures."""
    if len(shape) != 3 or not all(isinstance(size, int) and size > 0 for size in shape):
        raise InputError(
            f"shape = {tuple(shape)}: must be (channels, height, width), three positive integers"
        )
    channels, height, width = shape
    return channels, height, width


def as_pictures(values: Tensor, shape: Shape) -> Tensor:
    """Inputs as `(batch, channels, height, width)`, of which flat ones have the numbers in order.

    >>> import torch
    >>> as_pictures(torch.zeros(5, 12), (3, 2, 2)).shape
    torch.Size([5, 3, 2, 2])
    """
    sizes = tuple(values.shape[1:])
    if sizes == shape:
        return values
    if sizes != (math.prod(shape),):
        raise InputError(
            f"the network reads pictures of {shape}, or flat ones of {math.prod(shape)} numbers, "
            f"not inputs of {sizes}: give it another shape"
        )
    pictures: Tensor = values.unflatten(1, shape)
    return pictures
