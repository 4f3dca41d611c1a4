"""Networks in evaluation or training mode for a while, and whether torch writes calls down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def is_captured() -> bool:
    """Does torch write down what is computed, to compute it later with other numbers?

    So do `torch.export`, `torch.compile` and `torch.jit.trace`. Nothing may then depend on values,
    on a clock, or on how many examples there happen to be.
    """
    return torch.compiler.is_compiling() or is_scripted()


def is_scripted() -> bool:
    """Does `torch.jit.trace` do so?"""
    tracing: bool = torch._C._get_tracing_state() is not None
    return tracing


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
