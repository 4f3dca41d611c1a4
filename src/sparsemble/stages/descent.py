"""The losses of a batch, and their gradients.

One process computes them on the whole batch. In a team each process computes a part of it, and
gradients, losses and statistics are averaged. What their networks carry from batch to batch
differs, so each tells the others, and a checkpoint holds it for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from sparsemble.data import Inputs
from sparsemble.devices import Autocast, in_bfloat16
from sparsemble.stages.chain_state import ChainState
from sparsemble.stages.subject import Subject
from sparsemble.stages.teaching import Teacher
from sparsemble.structure.costs import FORWARD_AND_BACKWARD
from sparsemble.tasks import Task
from sparsemble.team import Team


class Descent:
    """From a batch to losses and gradients, for the subject that it took last.

    Args:
        task: Whose loss is descended.
        augment: Perturbs the inputs of every batch.
        teacher: Whose predictions are learned as well.
        autocast: Compute the network in bfloat16 where that is safe; `auto`: if the device has it.
        team: The processes that compute every batch together.
    """

    def __init__(
        self,
        task: Task,
        *,
        augment: Callable[[Tensor], Tensor] | None = None,
        teacher: Teacher | None = None,
        autocast: Autocast = False,
        team: Team | None = None,
    ) -> None:
        self._task = task
        self._augment = augment
        self._teacher = teacher
        self._wanted = autocast
        self._team = team
        self._carried_by_rank: dict[str, Tensor] = {}

    def take(self, subject: Subject) -> None:
        """Descend the losses of this one from now on."""
        self._subject = subject
        self._device = subject.device
        self._autocast = in_bfloat16(self._wanted, self._device)
        self._averaged: Sequence[str] | None = None

    @property
    def flops(self) -> float:
        """What a batch takes for each of its examples."""
        taught = 0.0 if self._teacher is None else self._teacher.flops
        return FORWARD_AND_BACKWARD * self._subject.flops + taught

    def __call__(self, inputs: Inputs, targets: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The losses of a batch, one or one per member, and the gradients of all parameters."""
        for tensor in self._subject.parameters.values():
            tensor.grad = None
        if self._team is None:
            losses = self._alone(inputs, targets)
        else:
            losses = self._together(inputs, targets, self._team)
        return losses, self._gradients()

    def _alone(self, inputs: Inputs, targets: Tensor) -> Tensor:
        inputs, targets = inputs.to(self._device), targets.to(self._device)
        if self._augment is not None:
            assert isinstance(inputs, Tensor), "several inputs are never perturbed"
            inputs = self._augment(inputs)
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self._autocast):
            outputs = self._subject.forward(inputs)
            losses = self._task.loss(outputs, targets)
            if self._teacher is not None:
                losses = self._teacher.mixed(losses, outputs, inputs, targets)
        # Members do not share weights: each gets the gradient of its own loss.
        losses.sum().backward()
        return losses.detach()

    def _together(self, inputs: Inputs, targets: Tensor, team: Team) -> Tensor:
        whole = self._task.weight(targets)
        inputs, targets = self._task.part(inputs, targets, team.bounds)
        share = self._task.weight(targets) / max(whole, 1.0)
        others = self._subject.others
        before = {n: own.clone() for n, own in others.items()} if self._averaged is None else {}
        if share:
            losses = self._alone(inputs, targets)
        else:
            losses = torch.zeros(self._subject.members, device=self._device)
        statistics = [others[name] for name in self._statistics(team, before)]
        team.average([losses, *self._gradients().values(), *statistics], share)
        if carried := self._carried():
            self._carried_by_rank = {
                f"{rank}/{name}": tensor
                for rank, own in enumerate(team.gathered(carried))
                for name, tensor in own.items()
            }
        return losses

    def _statistics(self, team: Team, before: Mapping[str, Tensor]) -> Sequence[str]:
        """What a forward pass changes, in any process: masks and what is frozen are not averaged.

        `before` is needed the first time.
        """
        if self._averaged is None:
            own = {
                name: torch.ones(())
                for name, tensor in self._subject.others.items()
                if tensor.is_floating_point() and not torch.equal(tensor, before[name])
            }
            self._averaged = sorted({name for found in team.gathered(own) for name in found})
        return self._averaged

    def _gradients(self) -> dict[str, Tensor]:
        """Of all parameters; of one that this network does not use only prior and noise move it."""
        parameters = self._subject.parameters
        for parameter in parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return {name: own.grad for name, own in parameters.items() if own.grad is not None}

    def reset(self) -> None:
        """Forget what is carried from batch to batch."""
        self._carried_by_rank = {}
        self._subject.forward.reset()
        if self._teacher is not None:
            self._teacher.reset()

    def state(self) -> dict[str, Tensor]:
        """What the next batch depends on, in parts of a chain's state."""
        return self._carried() | {
            f"team/{name}": own for name, own in self._carried_by_rank.items()
        }

    def restore(self, state: ChainState) -> None:
        """Go on from the chain's state that `state()` is part of."""
        self._carried_by_rank = state.part("team")
        mine = "" if self._team is None or not self._carried_by_rank else f"team/{self._team.rank}/"
        self._subject.forward.restore(state.part(f"{mine}carried"))
        if self._teacher is not None:
            self._teacher.restore(state.part(f"{mine}teacher"))

    def _carried(self) -> dict[str, Tensor]:
        """What this process's network and its teacher carry from batch to batch."""
        own = self._subject.forward.state()
        tensors = {f"carried/{name}": tensor for name, tensor in own.items()}
        if self._teacher is not None:
            tensors |= {f"teacher/{name}": t for name, t in self._teacher.state().items()}
        return tensors
