"""An ensemble as one plain module: raw tensors in, named tensors out.

Scaling, the choice of columns, members, mixing and uncertainty are one computation without looks at
values, locks or timings, so that it can be captured and run elsewhere. What members carry from call
to call goes in and comes out as tensors, too. What comes out is the task's to say
(`Task.exported`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sparsemble.data import Arguments, Inputs
from sparsemble.export.together import Together
from sparsemble.members import Member
from sparsemble.tasks import Task

NEXT = "next_"
"""What the name of a state begins with where it comes out."""


class Deployable(Protocol):
    """What deployment needs of an ensemble."""

    def __iter__(self) -> Iterator[Member]: ...

    @property
    def task(self) -> Task:
        """What its members predict."""
        ...

    @property
    def cost(self) -> Any:
        """What they cost."""
        ...

    def runner(self) -> Callable[..., Tensor]:
        """All members on the same inputs, from a state of their own."""
        ...


class Deployed(nn.Module):
    """Inputs and states by place; outputs and the states that follow, by name.

    It is called in evaluation mode; the members are the ensemble's own.

    Args:
        ensemble: What is deployed; the module shares its weights as they are now.
        names: What its inputs are called, in the order that they are given in.
        by_name: How many of them the members are called with by name; they come last.
        members: Shall it also say what every member predicts?
    """

    def __init__(
        self,
        ensemble: Deployable,
        names: tuple[str, ...] = ("inputs",),
        *,
        by_name: int = 0,
        members: bool = False,
    ) -> None:
        super().__init__()
        self._task = ensemble.task
        own = list(ensemble)
        self._together = Together.of(own)
        self.members = nn.ModuleList([] if self._together else own)
        scaling = ensemble.task.scalings.get("inputs")
        self._scaling = None if scaling is None or scaling.is_identity else scaling
        self._dtype = next(own[0].parameters()).dtype
        self._names = names
        self._by_name = by_name
        self._members = members
        self._states: dict[str, tuple[int, str]] = {}
        self._shared = False
        if self._together is None:
            self._shared = type(self._task.forward(own[0])).shares_state

    def beginning(self, inputs: Inputs) -> dict[str, Tensor]:
        """The states before the first of such raw inputs, by name; the module then takes them."""
        if self._together is not None:
            return {}
        scaled = self._scaled(inputs)
        own = list(self.members)[: 1 if self._shared else None]
        with torch.no_grad():
            begun = [self._task.forward(member).beginning(scaled) for member in own]
        places = [(number, name) for number, states in enumerate(begun) for name in states]
        self._states = {_name(number, name): (number, name) for number, name in places}
        return {known: begun[number][name] for known, (number, name) in self._states.items()}

    def forward(self, *tensors: Tensor) -> dict[str, Tensor]:
        """What the ensemble predicts, and the states for the inputs that follow."""
        given, states = tensors[: len(self._names)], tensors[len(self._names) :]
        inputs = self._scaled(self._as_called(given))
        if self._together is not None:
            evidence = self._task.evidence(self._together(inputs))
            return self._task.exported(evidence, members=self._members)
        before: dict[int, dict[str, Tensor]] = {}
        for (number, name), state in zip(self._states.values(), states, strict=True):
            before.setdefault(number, {})[name] = state
        each, after = [], []
        for number, member in enumerate(self.members):
            forward = self._task.forward(member)
            if own := before.get(0 if self._shared else number):
                forward.restore(own)
            each.append(self._task.evidence(forward(inputs)))
            after.append(forward.state())
        found = self._task.exported(torch.stack(each), members=self._members)
        return found | {NEXT + known: after[k][name] for known, (k, name) in self._states.items()}

    def _as_called(self, given: tuple[Tensor, ...]) -> Inputs:
        if len(given) == 1 and self._by_name == 0:
            return given[0]
        places = len(given) - self._by_name
        named = dict(zip(self._names[places:], given[places:], strict=True))
        return Arguments(given[:places], named)

    def _scaled(self, inputs: Inputs) -> Inputs:
        if self._task.scalings.get("inputs") is None:
            return inputs
        if self._scaling is not None:
            inputs = self._scaling(inputs)
        return inputs.to(self._dtype) if _is_floating(inputs) else inputs


def _is_floating(inputs: Inputs) -> bool:
    return isinstance(inputs, Arguments) or inputs.is_floating_point()


def _name(member: int, state: str) -> str:
    """What a state is called among the inputs.

    >>> _name(1, "0/h")
    'state_1_0_h'
    """
    return f"state_{member}_{re.sub('[^0-9A-Za-z]', '_', state)}"
