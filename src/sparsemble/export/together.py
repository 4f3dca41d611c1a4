"""Feed-forward members side by side: one product per layer for all of them.

Outside PyTorch, too, a call costs as much as a small product. Members padded to one size are a few
calls instead of a few for each member; if padding would cost more than the calls, they stay apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sparsemble.members import Member, Stack
from sparsemble.members.member import selected
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
        padded = sum(w.numel() for name, w in stack.parameters.items() if name in stack.masks)
        needed = sum(mask.numel() for member in members for mask in member.masks.values())
        return Together(stack) if padded <= _MOST_PADDING * needed else None

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        kept, self._features = stack.reads or (None, 0)
        self.register_buffer("reads", kept)
        self.layers = nn.ModuleList(_joined(stack, *pair) for pair in stack.lasting)

    def forward(self, inputs: Tensor) -> Tensor:
        """Layer by layer; the inputs are the same for all."""
        hidden = inputs if self.reads is None else selected(inputs, self.reads, self._features)
        hidden = hidden.flatten(1)
        for layer in self.layers:
            hidden = layer(hidden)
        return hidden


class _Products(nn.Module):
    """A linear layer of every member."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.mT.contiguous())
        self.register_buffer("bias", None if bias is None else bias.unsqueeze(1))

    def forward(self, hidden: Tensor) -> Tensor:
        product = torch.matmul(hidden, self.weight)
        return product if self.bias is None else product + self.bias


class _Noises(nn.Module):
    """A learned noise of every member, beside its means."""

    noise: Tensor

    def __init__(self, noise: Tensor) -> None:
        super().__init__()
        self.register_buffer("noise", noise.unsqueeze(1))

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden, self.noise.expand_as(hidden)], dim=-1)


def _joined(stack: Stack, name: str, layer: nn.Module) -> nn.Module:
    if type(layer) is nn.Linear:
        return _Products(*stack.weight_and_bias(name))
    if type(layer) is GaussianNoise:
        return _Noises(stack.parameters[f"{name}.log_variance"])
    return layer
