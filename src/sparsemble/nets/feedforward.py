"""Feed-forward networks of linear layers and activations."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from sparsemble.errors import InputError
from sparsemble.nets.layers import ELEMENTWISE


def feedforward(
    inputs: int,
    hidden: Sequence[int],
    outputs: int,
    *,
    activation: str = "relu",
    dropout: float = 0.0,
) -> nn.Sequential:
    """A feed-forward network that returns as many numbers as `outputs`.

    >>> feedforward(784, [300, 100], 10)[0]
    Linear(in_features=784, out_features=300, bias=True)
    """
    if activation not in ELEMENTWISE:
        raise InputError(f"activation {activation!r} is not one of {', '.join(ELEMENTWISE)}")
    if isinstance(hidden, int):
        raise InputError(f"hidden = {hidden}: give the size of every hidden layer, as [{hidden}]")
    if not all(isinstance(size, int) and size > 0 for size in (inputs, *hidden, outputs)):
        raise InputError(f"layer sizes {inputs}, {hidden}, {outputs} must be positive integers")
    if not 0 <= dropout < 1:
        raise InputError(f"dropout = {dropout}: must be at least 0 and below 1")
    layers: list[nn.Module] = []
    width = inputs
    for size in hidden:
        layers += [nn.Linear(width, size), ELEMENTWISE[activation][0]()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size
    return nn.Sequential(*layers, nn.Linear(width, outputs))
