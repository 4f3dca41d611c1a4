"""Sequences as networks read them: of words, by an embedding, or of vectors."""

from __future__ import annotations

from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.nets.arguments import check_sizes


def check_kind(words: int | None, features: int | None) -> None:
    """Raise `InputError` unless it is said what sequences are made of, once."""
    if (words is None) == (features is None):
        raise InputError(
            f"words = {words}, features = {features}: give words, the size of a vocabulary, for "
            "sequences of words, or features, the numbers of each vector, for sequences of vectors"
        )
    check_sizes(**({"words": words} if words is not None else {"features": features or 0}))


def as_words(values: Tensor) -> Tensor:
    """Indices of words, `(batch, time)`, also where they come as floats, as from a file."""
    if values.ndim != 2:
        raise InputError(
            f"inputs of {tuple(values.shape)}: the network reads words, (batch, time); for vectors "
            "give features instead of words"
        )
    return values.long()


def as_vectors(values: Tensor, features: int) -> Tensor:
    """Vectors, `(batch, time, features)`, also where they come flat, one after the other.

    >>> import torch
    >>> as_vectors(torch.zeros(5, 12), features=3).shape
    torch.Size([5, 4, 3])
    """
    if values.ndim == 3 and values.shape[2] == features:
        return values
    if values.ndim != 2 or values.shape[1] % features:
        raise InputError(
            f"inputs of {tuple(values.shape)}: the network reads vectors of {features} numbers, "
            f"(batch, time, {features}) or flat, (batch, time·{features}): give other features"
        )
    vectors: Tensor = values.unflatten(1, (-1, features))
    return vectors
