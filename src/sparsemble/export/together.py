"""Feed-forward members side by side: one product per layer for all of them.

Outside PyTorch, too, a call costs as much as a small product. Members padded to one size are a few
calls instead of a few for each member; if padding would cost more than the calls, they stay apart.
Examples are columns: then the first product of all members is one, and nothing has to be turned
around before the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sparsemble.members import Member, Stack
from sparsemble.nets.gaussian_noise import GaussianNoise

_MOST_PADDING = 1.25
"""How many times as many products as the members need may be computed."""


class Together(nn.Module):
    """Outputs of every member, `(members, examples, outputs)`, for scaled inputs."""

    reads: Tensor | None

    @staticmethod
    def of(members: Sequence[Member]) -> Together | None:
        """The members side by side, if they can be and should."""
        if len(members) < 2 or not Stack.fits(members):
            return None
        stack = Stack(members)
        if not stack.is_flat:
            return None
        padded = sum(stack.parameters[name].numel() for name in stack.masks)
        needed = sum(mask.numel() for member in members for mask in member.masks.values())
        return Together(stack) if padded <= _MOST_PADDING * needed else None

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.register_buffer("reads", stack.reads[0] if stack.reads else None)
        self.layers = nn.ModuleList(_joined(stack, *pair) for pair in stack.lasting)

    def forward(self, inputs: Tensor) -> Tensor:
        """Layer by layer; the inputs are the same for all."""
        hidden = inputs.flatten(1).t()
        if self.reads is not None:
            hidden = hidden.index_select(0, self.reads)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden.transpose(1, 2)


class _Products(nn.Module):
    """A linear layer of every member; they read what is their own, or all the same."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", None if bias is None else bias.unsqueeze(2))

    def forward(self, hidden: Tensor) -> Tensor:
        if hidden.ndim == 2:
            joined = torch.matmul(self.weight.flatten(0, 1), hidden)
            product = joined.unflatten(0, self.weight.shape[:2])
        else:
            product = torch.matmul(self.weight, hidden)
        found: Tensor = product if self.bias is None else product + self.bias
        return found


class _Noises(nn.Module):
    """A learned noise of every member, below its means."""

    noise: Tensor

    def __init__(self, noise: Tensor) -> None:
        super().__init__()
        self.register_buffer("noise", noise.unsqueeze(2))

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden, self.noise.expand_as(hidden)], dim=1)


def _joined(stack: Stack, name: str, layer: nn.Module) -> nn.Module:
    if type(layer) is nn.Linear:
        return _Products(*stack.weight_and_bias(name))
    if type(layer) is GaussianNoise:
        return _Noises(stack.parameters[f"{name}.log_variance"])
    return layer
