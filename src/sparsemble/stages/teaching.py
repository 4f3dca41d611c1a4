"""Targets from the posterior: members are retrained on what all samples predict together.

A label says what happened once, the averaged prediction of the samples what they hold probable. A
member loses little by learning both, and much of the ensemble's calibration goes into it. The
teacher sees the same perturbed inputs as the member, so its predictions are made anew for every
batch: a forward pass of every sample, about a third of what training them all would cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from sparsemble.data import Inputs
from sparsemble.members import Member, Stack
from sparsemble.tasks import Forward, Task, takes_examples


class Teacher:
    """What networks predict together for training inputs, and the loss of learning that.

    Args:
        members: Whose predictions are learned; usually the samples as they were drawn.
        task: What they predict.
        share: How much of the loss is theirs; the rest is that of the labels.
    """

    def __init__(self, members: Sequence[Member], task: Task, share: float) -> None:
        self.flops = sum(member.cost.flops for member in members)
        """Of their forward passes on one example."""
        self._task = task
        self._share = share
        stacks = takes_examples(task) and Stack.fits(members)
        self._stack = Stack(members) if stacks else None
        self._forwards: list[Forward] = []
        if self._stack is not None:
            self._stack.train(False)
        else:
            self._forwards = [task.forward(member.eval()) for member in members]

    def mixed(self, loss: Tensor, outputs: Tensor, inputs: Inputs, targets: Tensor) -> Tensor:
        """The loss by labels and that by the teacher's prediction, each with its share."""
        prediction = self._task.taught_part(self.predict(inputs), targets)
        taught = self._task.taught_loss(outputs, prediction)
        return torch.lerp(loss, taught.to(loss), self._share)

    @torch.no_grad()
    def predict(self, inputs: Inputs) -> Tensor:
        """The members' prediction together."""
        task = self._task
        if self._stack is not None:
            assert isinstance(inputs, Tensor), "networks with several inputs are never stacked"
            return task.mix(task.evidence(self._stack(inputs)))
        return task.mix(torch.stack([task.evidence(forward(inputs)) for forward in self._forwards]))

    def reset(self) -> None:
        """Forget what the networks carry from batch to batch."""
        for forward in self._forwards:
            forward.reset()

    def state(self) -> dict[str, Tensor]:
        """What the next batch depends on."""
        return {
            f"{number}/{name}": tensor
            for number, forward in enumerate(self._forwards)
            for name, tensor in forward.state().items()
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from `state()`."""
        for number, forward in enumerate(self._forwards):
            prefix = f"{number}/"
            own = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
            forward.restore(own)
