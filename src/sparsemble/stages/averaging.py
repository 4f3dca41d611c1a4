"""Means of a chain's weights over a window: better samples than the iterates they are made of.

At a constant rate iterates wander around a region of good networks; their mean lies inside it. It
predicts better than any of them, costs no more, and bears pruning (averaged SGD, Polyak & Juditsky
1992; stochastic weight averaging, Izmailov et al. 2018). A chain that jumps from one region to
another has a useless mean, so every mean is compared with the iterate it ends in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from sparsemble.data import Batches
from sparsemble.modes import in_mode
from sparsemble.tasks import Task

_CHECKED_STEPS = 20
"""Batches on which a mean is compared with an iterate."""
_TOLERATED = 0.05
"""How much worse a mean may be, as a share of the loss of guessing."""


class WindowMean:
    """The mean of some tensors over the steps since `since`, every `every`-th one of them."""

    def __init__(self, tensors: Sequence[Tensor], every: int) -> None:
        self._tensors = [tensor.detach() for tensor in tensors]
        self._every = every
        # In halves a late iterate's share of the mean would be lost to rounding.
        self._means = [
            torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32))
            for tensor in self._tensors
        ]
        self.since = 0
        self.count = 0

    def begin(self, since: int) -> None:
        """Average from step `since` on; a mean that is under way from there goes on."""
        if since != self.since:
            self.since, self.count = since, 0

    @torch.no_grad()
    def stepped(self, step: int) -> None:
        """Take the tensors in as they are after a step, if it is one of the window's."""
        if step > self.since and (step - self.since) % self._every == 0:
            self.count += 1
            own = [t.to(mean.dtype) for t, mean in zip(self._tensors, self._means, strict=True)]
            if self.count == 1:  # whatever was there, be it not finite, is of another window
                torch._foreach_copy_(self._means, own)
            else:
                torch._foreach_lerp_(self._means, own, 1 / self.count)

    def value(self) -> list[Tensor]:
        """Copies of the means; of an empty window the tensors as they are."""
        if not self.count:
            return [tensor.clone() for tensor in self._tensors]
        return [
            mean.to(tensor.dtype, copy=True)
            for mean, tensor in zip(self._means, self._tensors, strict=True)
        ]

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """What a checkpoint keeps: tensors by number, and counts."""
        tensors = {str(k): mean.clone() for k, mean in enumerate(self._means)} if self.count else {}
        return tensors, {"since": self.since, "count": self.count}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> None:
        """Go on from `state()`."""
        self.since, self.count = numbers["since"], numbers["count"]
        if self.count:
            for key, mean in enumerate(self._means):
                mean.copy_(tensors[str(key)])


def spacing(every: int, window: int) -> int:
    """Steps between the iterates of a mean: as asked for, if that makes two of a window at least.

    >>> spacing(5, window=100), spacing(5, window=6)
    (5, 3)
    """
    return min(every, max(window // 2, 1))


def is_useless(averaged: float, own: float, guess: float) -> bool:
    """Is a mean clearly worse than the iterate it ends in?

    Args:
        averaged: The mean's loss on some training batches.
        own: The iterate's on the same.
        guess: The loss of knowing nothing.
    """
    return not averaged <= own + _TOLERATED * guess


@torch.no_grad()
def loss_of(network: nn.Module, task: Task, batches: Batches) -> float:
    """The loss on some training batches, without dropout; the network is left as it was."""
    forward = task.forward(network)
    forward.reset()
    device = next(network.parameters()).device
    with in_mode(network):
        losses = [
            float(task.loss(forward(inputs.to(device)), targets.to(device)))
            for inputs, targets in islice(batches.epoch(0), _CHECKED_STEPS)
        ]
    return sum(losses) / len(losses)
