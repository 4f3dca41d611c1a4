"""A network that is computed step by step from a graph, at any sizes of its layers.

Members of an ensemble of traced networks are programs: a pruned attention layer or a recurrent one
with two unequal directions has no class of its own in PyTorch. A program is an ordinary module with
the original's parameters and buffers under their own names; it can be trained, moved and compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.modes import is_captured, is_scripted
from sparsemble.programs.blueprint import Blueprint
from sparsemble.programs.graph import Constant, Graph, Held, Own, Ref, Step, leaves, mapped
from sparsemble.programs.operations import operation
from sparsemble.programs.scripting import open_forms
from sparsemble.structure import Layout, Size

_MOVING_WORDS = """
    view reshape transpose permute unsqueeze squeeze slice select expand contiguous sym_size to
    clone flatten unflatten detach split split_with_sizes chunk zeros arange
"""
_SILENT = frozenset(_MOVING_WORDS.split())
"""Operations that a network is read without."""


def paths_of(inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors in inputs, in their order, by where they stand.

    >>> list(paths_of([{"b": torch.ones(1), "a": torch.ones(1)}], {"mask": torch.ones(1)}))
    ["[0][0]['b']", "[0][0]['a']", "[1]['mask']"]
    """
    found = pytree.tree_flatten_with_path((list(inputs), dict(named)))[0]
    return {pytree.keystr(path): leaf for path, leaf in found if leaf is not None}


class Program(nn.Module):
    """A network as a graph.

    Names of its own end in an underscore, so that they differ from those of any layer.

    Args:
        blueprint: Its computation.
        tensors: Its parameters and buffers by name, of the sizes that go with `sizes`.
        sizes: How many units each space has.
    """

    def __init__(
        self, blueprint: Blueprint, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.blueprint_ = blueprint
        if set(tensors) != set(blueprint.tensors):
            odd = sorted(set(tensors) ^ set(blueprint.tensors))
            raise InputError(f"tensors that are missing, or not of this network: {', '.join(odd)}")
        for name in blueprint.tensors:
            self._hold_(name, tensors[name])
        for name, alias in blueprint.aliases:
            self._hold_(alias, self._tensor_(name))
        self.resize_(sizes)

    def resize_(self, sizes: Mapping[str, int]) -> None:
        """Compute with so many units from now on; the tensors are the caller's to change."""
        self.sizes_ = dict(sizes)
        graphs = (self.blueprint_.training, self.blueprint_.evaluating)
        held = list(dict.fromkeys(name for graph in graphs for name in graph.held))
        self._names_ = held
        # Layers are looked up once, which takes as long as a small product. Its own tensors have
        # none: a program that held itself would keep its memory until it is collected.
        places = (name.rpartition(".") for name in held)
        self._places_ = [
            (self.get_submodule(path) if path else None, leaf) for path, _, leaf in places
        ]
        self._steps_ = {
            True: _Compiled(self.blueprint_.training, held, self.sizes_),
            False: _Compiled(self.blueprint_.evaluating, held, self.sizes_),
        }
        self._estimating_: _Compiled | None = None
        self._checked_: set[tuple[torch.Size, ...]] = set()

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the network returns, with a plain dict for one of any other class.

        Of one that was traced without names, named inputs follow the others by the alphabet.
        """
        if not named and all(isinstance(own, Tensor) for own in inputs):
            return self._run_(inputs)
        names = self.blueprint_.named or tuple(sorted(named))
        if unknown := set(named) - set(names):
            raise InputError(f"{unknown.pop()!r} was not given when the network was traced")
        given = paths_of(inputs, {name: named[name] for name in names if name in named})
        if set(given) == set(self.blueprint_.paths):  # dicts may have another order
            given = {path: given[path] for path in self.blueprint_.paths}
        return self._run_(list(given.values()))

    def _run_(self, given: Sequence[Tensor]) -> Any:
        self._check_(given)
        steps = self._estimating_ or self._steps_[self.training]
        return steps(given, self._tensors_())

    def _check_(self, given: Sequence[Tensor]) -> None:
        if is_captured():  # lengths are then no numbers that could be looked up
            return
        shapes = tuple(leaf.shape for leaf in given)
        if shapes not in self._checked_:
            self.blueprint_.check(given)
            self._checked_.add(shapes)

    @property
    def has_statistics_(self) -> bool:
        """Does it normalise by statistics of its data?"""
        return any(step.normalises for step in self.blueprint_.evaluating.steps)

    @contextmanager
    def estimating_(self) -> Iterator[Callable[[int], None]]:
        """Calls now estimate these statistics: say the number of every batch before it, from 0.

        Nothing else is as in training: there is no dropout. Afterwards statistics are the means
        over the batches.
        """
        graph = self.blueprint_.evaluating
        steps = tuple(step.estimating if step.normalises else step for step in graph.steps)
        compiled = _Compiled(replace(graph, steps=steps), self._names_, self.sizes_)
        self._estimating_ = compiled

        def begin(number: int) -> None:
            compiled.momentum = 1 / (number + 1)

        try:
            yield begin
        finally:
            self._estimating_ = None

    @torch.no_grad()
    def values_(self, inputs: Sequence[Tensor], names: Collection[str]) -> dict[str, Tensor]:
        """What some steps compute in evaluation, by name."""
        seen: dict[str, Tensor] = {}
        graph = self.blueprint_.evaluating
        seen |= {n: x for n, x in zip(graph.inputs, inputs, strict=True) if n in names}
        self._steps_[False](inputs, self._tensors_(), (frozenset(names), seen))
        return seen

    def seen_(self, layout: Layout) -> dict[str, list[Tensor]]:
        """What the products of `layout`, which has its sizes, read in runs of it.

        Runs on inputs of several lengths, where the network reads them: what is the same in all of
        one length may still depend on it.
        """
        dtype = next((t.dtype for t in self._tensors_() if t.is_floating_point()), torch.float32)
        watched = {link.value for link in layout.links if link.value is not None}
        seen: dict[str, list[Tensor]] = {}
        for lengths in ({}, *self.blueprint_.other_lengths()):
            inputs = self.blueprint_.made_up(dtype=dtype, lengths=lengths)
            if layout.inputs is not None:
                inputs = [inputs[0].flatten(1)[:, : layout.inputs.size]]
            try:
                values = self.values_(inputs, watched)
            except (RuntimeError, IndexError):
                if not lengths:
                    raise
                continue  # a length that the network itself cannot read
            for name, own in values.items():
                seen.setdefault(name, []).append(own)
        return seen

    def __repr__(self) -> str:
        """Its layers with the shapes of their tensors, and what is done between them."""
        lines = [f"{type(self).__name__}("]
        for layer, steps in groupby(self.blueprint_.evaluating.steps, key=lambda step: step.layer):
            words = [word for step in steps if (word := self._word_(step))]
            if words:
                lines.append(
                    f"  ({layer}): {', '.join(words)}" if layer else f"  {', '.join(words)}"
                )
        return "\n".join([*lines, ")"])

    def _word_(self, step: Step) -> str:
        """A step as people read it; those that only move data are left out."""
        kind = step.operation.removeprefix("aten.").partition(".")[0].rstrip("_")
        shapes = [
            "×".join(map(str, self._tensor_(leaf.name).shape))
            for leaf in leaves(step.arguments)
            if isinstance(leaf, Held)
        ]
        if shapes:
            return f"{kind} {max(shapes, key=len)}"
        return "" if kind in _SILENT or not step.operation.startswith("aten.") else kind

    def _tensors_(self) -> list[Tensor]:
        return [getattr(self if layer is None else layer, leaf) for layer, leaf in self._places_]

    def _tensor_(self, name: str) -> Tensor:
        path, _, leaf = name.rpartition(".")
        module: nn.Module = self.get_submodule(path) if path else self
        found: Tensor = getattr(module, leaf)
        return found

    def _hold_(self, name: str, tensor: Tensor) -> None:
        *path, leaf = name.split(".")
        module: nn.Module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, _Layer())
            module = module.get_submodule(part)
        if name in self.blueprint_.parameters or isinstance(tensor, nn.Parameter):
            learns = name not in self.blueprint_.frozen and tensor.is_floating_point()
            own = tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor, learns)
            module.register_parameter(leaf, own)
        else:
            module.register_buffer(leaf, tensor)


class _Layer(nn.Module):
    """Holds tensors of a layer under its name."""


@dataclass(frozen=True)
class _At:
    """A place among the values of a run."""

    number: int


class _Compiled:
    """A graph at given sizes, ready to run: values stand in one list, by number."""

    def __init__(self, graph: Graph, held: Sequence[str], sizes: Mapping[str, int]) -> None:
        names = [*graph.inputs, *(step.name for step in graph.steps)]
        if len(set(names)) < len(names):
            raise InputError("a program has two values of one name")
        at = {name: number for number, name in enumerate(names)}
        self._inputs = len(graph.inputs)
        self._count = len(names)
        tensors = {name: len(names) + number for number, name in enumerate(held)}
        last = dict.fromkeys(_used(graph.outputs), graph.steps[-1].name if graph.steps else "")
        for step in reversed(graph.steps):
            for name in _used((step.arguments, tuple(own for _, own in step.keywords))):
                last.setdefault(name, step.name)
        ends: dict[str, list[int]] = {}
        outputs = _used(graph.outputs)
        for name, step_name in last.items():
            if name not in outputs:
                ends.setdefault(step_name, []).append(at[name])

        def placed(leaf: Any) -> Any:
            if isinstance(leaf, Ref):
                return _At(at[leaf.name])
            if isinstance(leaf, Held):
                return _At(tensors[leaf.name])
            if isinstance(leaf, Size):
                return leaf.at(sizes)
            if isinstance(leaf, Constant):
                return getattr(torch, leaf.name)
            return leaf

        self._steps: list[tuple[Callable[..., Any], Any, Any, int, str, tuple[int, ...]]] = []
        for step in graph.steps:
            arguments = _listed(mapped(step.arguments, placed))
            keywords = {key: _listed(mapped(own, placed)) for key, own in step.keywords}
            ending = tuple(ends.get(step.name, ()))
            self._steps.append(
                (operation(step.operation), arguments, keywords, at[step.name], step.name, ending)
            )
        self._outputs = mapped(graph.outputs, placed)
        self._graph = graph
        self._made_of = (graph, tuple(held), dict(sizes))
        self.momentum = 1.0
        """Of statistics that are estimated."""

    def __deepcopy__(self, memo: object) -> _Compiled:
        """Steps are never changed: a copy has the same."""
        copied = object.__new__(_Compiled)
        vars(copied).update(vars(self))
        return copied

    def __reduce__(self) -> tuple[type[_Compiled], tuple[Any, ...]]:
        """On its way to another process; PyTorch's functions are looked up there."""
        return _Compiled, self._made_of

    def __call__(
        self,
        inputs: Sequence[Tensor],
        tensors: Sequence[Tensor],
        watch: tuple[frozenset[str], dict[str, Tensor]] | None = None,
    ) -> Any:
        if len(inputs) != self._inputs:
            raise InputError(f"{len(inputs)} inputs were given to a network of {self._inputs}")
        values: list[Any] = [*inputs, *[None] * (self._count - self._inputs), *tensors]
        first = next((t for t in tensors if t.is_floating_point()), None)

        def found(argument: Any) -> Any:
            kind = type(argument)
            if kind is _At:
                return values[argument.number]
            if kind is list:
                return [found(own) for own in argument]
            if kind is Own:
                return self._own(argument.what, first)
            return argument

        forms = open_forms(self._graph.steps) if is_scripted() else {}
        for function, arguments, keywords, number, name, ending in self._steps:
            result = forms.get(name, function)(
                *[found(own) for own in arguments],
                **{key: found(own) for key, own in keywords.items()},
            )
            values[number] = result
            if watch is not None and name in watch[0]:
                watch[1][name] = result.clone()
            for gone in ending:
                values[gone] = None
        return mapped(self._outputs, found)

    def _own(self, what: str, first: Tensor | None) -> Any:
        if what == "momentum":
            return self.momentum
        assert first is not None, "a program without parameters"
        return first.dtype if what == "dtype" else first.device


def _used(argument: Any) -> set[str]:
    return {leaf.name for leaf in leaves(argument) if isinstance(leaf, Ref)}


def _listed(argument: Any) -> Any:
    """Tuples as lists, which is how operations take them."""
    if isinstance(argument, tuple | list):
        return [_listed(own) for own in argument]
    return argument
