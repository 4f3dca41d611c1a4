"""Networks in evaluation or training mode for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def in_mode(network: nn.Module, *, training: bool = False) -> Iterator[None]:
    """The network is in a mode; every layer's own comes back, as some may be frozen in another."""
    before = [(module, module.training) for module in network.modules()]
    network.train(training)
    try:
        yield
    finally:
        for module, was_training in before:
            module.training = was_training
