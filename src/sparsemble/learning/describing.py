"""Networks of any kind in a run: traced as the task calls them, before anything is learned."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sparsemble.stages.starting import Maker, TracedSource
from sparsemble.tasks import Task, Training
from sparsemble.tracing import Traced, describe

_EXAMPLES = 3
"""As many are traced with."""


class Tracer:
    """Traces networks for tasks; the same network for the same inputs only once."""

    def __init__(self) -> None:
        self._known: dict[object, Traced] = {}

    def trace(
        self, made_by: Maker, blank: nn.Module, training: Training
    ) -> tuple[TracedSource, Traced]:
        """The source of a network's programs, and the network as traced.

        Args:
            made_by: What makes such networks.
            blank: One of them.
            training: What it will learn from.
        """
        prepare = _preparing(training.task)
        network = prepare(blank)
        inputs, targets = next(training.batches(_EXAMPLES).epoch(0))
        arguments = called_with(network, training.task, inputs)
        key = (repr(network), repr([getattr(own, "shape", own) for own in arguments]))
        if key not in self._known:
            examples = training.task.examples_in(targets)
            self._known[key] = describe(network, *arguments, examples=examples)
            for doubt in doubts(self._known[key]):
                warnings.warn(doubt, stacklevel=2)
        traced = self._known[key]
        return TracedSource(made_by, traced.program, prepare), traced


def doubts(traced: Traced) -> list[str]:
    """What a user may not have meant: nothing that may go, parameters that nothing uses."""
    found = []
    spaces, held = traced.layout.spaces, traced.program.blueprint_.training.held
    if not any(space.kind.may_go for space in spaces):
        why = "; ".join(f"{space.name}: {space.reason}" for space in spaces)
        found.append(f"no unit of the network may go, only single weights ({why})")
    unused = sorted(traced.program.blueprint_.parameters - set(held))
    if unused:
        found.append(f"the network never uses its parameters {', '.join(unused)}")
    return found


def called_with(network: nn.Module, task: Task, inputs: Any) -> tuple[Any, ...]:
    """What a task gives a network for a batch of inputs."""
    calls: list[tuple[Any, ...]] = []

    def watched(*arguments: Any) -> Any:
        calls.append(arguments)
        return network(*arguments)

    was_training = network.training
    network.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            task.forward(watched)(inputs)
    finally:
        network.train(was_training)
    return calls[0]


def _preparing(task: Task) -> Callable[[nn.Module], nn.Module]:
    """What a task adds to networks that are traced afterwards: they may be of any class."""

    def prepare(network: nn.Module) -> nn.Module:
        whole = nn.Sequential(OrderedDict([("network", network)]))
        prepared = task.prepared(whole)
        return network if prepared is whole else prepared

    return prepare
