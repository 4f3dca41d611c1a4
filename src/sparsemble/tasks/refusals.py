"""What networks say of inputs that they cannot take, as one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sparsemble.errors import InputError


@contextmanager
def refusals() -> Iterator[None]:
    """Let an error of PyTorch in this block be one of the inputs that a network was called with.

    >>> with refusals():
    ...     torch.nn.Embedding(3, 2)(torch.tensor([7]))
    Traceback (most recent call last):
    sparsemble.errors.InputError: the network cannot take such inputs: index out of range in self
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError) as error:
        raise cannot_take(error) from error


def cannot_take(error: Exception) -> InputError:
    """What a network says of inputs, as an error of theirs."""
    why = str(error).partition("\n")[0]
    return InputError(f"the network cannot take such inputs: {why}")
