"""All members of an ensemble on the same inputs: as one stack, or one after the other.

Many examples are computed some at a time: activations then stay in a CPU's cache, and the memory
that they take does not grow with the data. A text is never divided, as its beginning says how to go
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from sparsemble.caller_modes import OwnModes
from sparsemble.data import Inputs, Scaling
from sparsemble.data.arguments import tensors_given
from sparsemble.data.arrays import STACKED, rows_at_once
from sparsemble.ensemble.few import Few
from sparsemble.members import Stack
from sparsemble.modes import is_captured
from sparsemble.tasks import Task, takes_examples

Then = Callable[[Tensor], Tensor]


def _unchanged(outputs: Tensor) -> Tensor:
    return outputs


class Runner:
    """Calls the members without gradients; what they carry from call to call is the runner's.

    Args:
        task: Says how a network is called, and how its inputs are scaled.
        members: Stacked, or as networks to be called in turn.
        few: Those networks, to be called together with few examples where that is quicker.
    """

    def __init__(
        self, task: Task, members: Stack | Sequence[nn.Module], few: Few | None = None
    ) -> None:
        self._task = task
        self._few = few
        self._divides = takes_examples(task)
        self._scaling: Scaling | None = task.scalings.get("inputs")
        if isinstance(members, Stack):
            self._stack: Stack | None = members
            parameter = next(iter(members.parameters.values()))
        else:
            self._stack = None
            self._networks = members
            self._forwards = [task.forward(network) for network in members]
            parameter = next(members[0].parameters())
        self._device, self._dtype = parameter.device, parameter.dtype

    def __call__(self, inputs: Inputs, then: Then = _unchanged) -> Tensor:
        """`then(outputs)` of every member for raw inputs, `(members, …)`.

        Args:
            inputs: As the task checked them, not yet scaled.
            then: What is kept of the outputs; of a stack it gets those of several members at once,
                of many inputs those of some.
        """
        if is_captured():
            return self._called(inputs, then)
        if self._divides and isinstance(inputs, Tensor) and len(inputs) == 0:
            # Not every network can be called with none; what comes out has the shape of one's.
            return self(inputs.new_zeros(1, *inputs.shape[1:]), then)[:, :0]
        parts = self._parts(inputs)
        return self._joined(parts, [then] * len(parts))

    def evidence(self, inputs: Inputs, targets: Tensor) -> Tensor:
        """The members' evidence for inputs whose answers are known, which it may depend on."""

        def then(outputs: Tensor, known: Tensor) -> Tensor:
            return self._task.evidence(outputs, known.to(outputs.device))

        parts = self._parts(inputs)
        known = [targets] if len(parts) == 1 else targets.split(len(parts[0]))
        return self._joined(parts, [partial(then, known=own) for own in known])

    def _joined(self, parts: Sequence[Inputs], thens: Sequence[Then]) -> Tensor:
        """What is kept of the outputs for all parts, each in its own way."""
        with OwnModes():
            found = [self._called(part, then) for part, then in zip(parts, thens, strict=True)]
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)

    def _parts(self, inputs: Inputs) -> list[Inputs]:
        """The inputs, as many in each part as are computed at a time."""
        if not self._divides or len(inputs) == 0:
            return [inputs]
        row = sum(own.nbytes for own in tensors_given(inputs[:1]))
        return list(inputs.split(min(rows_at_once(row), STACKED)))

    def _called(self, inputs: Inputs, then: Then) -> Tensor:
        inputs = inputs.to(self._device)
        if self._scaling is not None:
            inputs = self._scaling(inputs).to(self._dtype)
        if self._stack is not None:
            assert isinstance(inputs, Tensor), "networks with several inputs are never stacked"
            return then(self._stack.predict(inputs))
        with torch.no_grad(), _evaluating(self._networks):
            few = self._few
            if few and isinstance(inputs, Tensor) and few.is_quicker(inputs, self._in_turn):
                return then(few(inputs))
            return torch.stack([then(forward(inputs)) for forward in self._forwards])

    def _in_turn(self, inputs: Tensor) -> Tensor:
        return torch.stack([forward(inputs) for forward in self._forwards])


@contextmanager
def _evaluating(networks: Sequence[nn.Module]) -> Iterator[None]:
    """Networks without dropout, as a stack predicts; afterwards in the mode they were in."""
    training = [layer for network in networks for layer in network.modules() if layer.training]
    for layer in training:
        layer.training = False
    try:
        yield
    finally:
        for layer in training:
            layer.training = True
