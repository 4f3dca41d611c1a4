"""Networks of any kind in a run: traced as the task calls them, before anything is learned."""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sparsemble.data import Arguments, Inputs
from sparsemble.errors import InputError
from sparsemble.modes import in_mode
from sparsemble.stages.starting import Maker, TracedSource
from sparsemble.streams import borrowed_streams
from sparsemble.tasks import Task, Training
from sparsemble.tracing import Traced, described

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
        inputs, targets = next(training.batches(_EXAMPLES).epoch(0))
        if isinstance(inputs, Arguments):
            check_names(blank, inputs)
        prepare = _preparing(training.task, inputs)
        network = prepare(blank)
        given: Any = inputs
        if isinstance(inputs, Arguments) and isinstance(network, _Named):
            given = inputs.tensors
        arguments = called_with(network, training.task, given)
        key = (repr(network), repr(pytree.tree_map_only(Tensor, _kind, arguments)))
        if key not in self._known:
            examples = training.task.examples_in(targets)
            self._known[key] = described(
                network, arguments, examples=examples, along=training.task.batch_dim
            )
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


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype


def check_names(network: nn.Module, inputs: Arguments) -> None:
    """Raise `InputError` if a network cannot be called with arguments of these names."""
    signature = inspect.signature(network.forward)
    try:
        signature.bind(*inputs.positional, **inputs.named)
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        raise InputError(
            f"{type(network).__name__} cannot be called with these inputs ({error}): it takes "
            f"{takes or 'none'}; give the data's inputs such names, or as a tuple in this order"
        ) from None


def called_with(network: nn.Module, task: Task, inputs: Any) -> tuple[Any, ...]:
    """What a task gives a network for a batch of inputs."""
    calls: list[tuple[Any, ...]] = []

    def watched(*arguments: Any) -> Any:
        calls.append(arguments)
        return network(*arguments)

    try:
        with torch.no_grad(), borrowed_streams(), in_mode(network):
            task.forward(watched)(inputs)
    except (RuntimeError, ValueError, TypeError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        given = (leaf for leaf in pytree.tree_leaves(calls[:1]) if isinstance(leaf, Tensor))
        shapes = ", ".join(str(tuple(leaf.shape)) for leaf in given)
        needed = f"; {task.networks}" if task.networks else ""
        raise InputError(
            f"the network cannot take inputs of shape {shapes}: {error}{needed}"
        ) from error
    return calls[0]


def _preparing(task: Task, inputs: Inputs) -> Callable[[nn.Module], nn.Module]:
    """What a task adds to networks that are traced afterwards: they may be of any class."""
    several = isinstance(inputs, Arguments)
    names = tuple(inputs.named) if isinstance(inputs, Arguments) else ()

    def prepare(network: nn.Module) -> nn.Module:
        whole = nn.Sequential(OrderedDict([("network", network)]))
        prepared = task.prepared(whole)
        if prepared is whole and not names:
            return network
        return _Named(OrderedDict(prepared.named_children()), names) if several else prepared

    return prepare


class _Named(nn.Sequential):
    """Layers of which the first takes several inputs, some by name; they come as one tuple.

    `torch.export` has no names for the arguments of a function that takes any number of them.
    """

    def __init__(self, layers: OrderedDict[str, nn.Module], names: tuple[str, ...]) -> None:
        super().__init__(layers)
        self.names = names

    def forward(self, given: tuple[Tensor, ...]) -> Any:
        """What the last layer returns."""
        places = len(given) - len(self.names)
        first, *others = self
        outputs = first(*given[:places], **dict(zip(self.names, given[places:], strict=True)))
        for layer in others:
            outputs = layer(outputs)
        return outputs
