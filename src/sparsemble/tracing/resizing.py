"""From a captured graph to a program: which of the numbers in it are sizes that follow units.

`torch.export` writes sizes into a graph as numbers: the heads of a `view`, the groups of a
convolution, the bounds of a slice. By the labels of what comes out each is recognised, and becomes
an expression in the sizes of the spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from sparsemble.errors import InputError
from sparsemble.programs.graph import Constant, Graph, Held, Own, Ref, Step
from sparsemble.programs.operations import name_of
from sparsemble.structure import Size
from sparsemble.tracing.atoms import thin
from sparsemble.tracing.naming import module_path, operation_name, place, user_line
from sparsemble.tracing.rectangles import owners
from sparsemble.tracing.rules.moves import CREATES
from sparsemble.tracing.spaces import Spaces, UnevenError
from sparsemble.tracing.values import Value
from sparsemble.tracing.walk import Walk

_STRETCHES = ("expand", "broadcast_to")
_SIZED = {"view": 1, "reshape": 1, "_unsafe_view": 1, "expand": 1, "broadcast_to": 1, "zeros": 0,
          "ones": 0, "full": 0, "empty": 0, "rand": 0, "randn": 0, "new_zeros": 1, "new_ones": 1,
          "new_full": 1, "new_empty": 1}  # fmt: skip
"""Operations that take the shape of what comes out, and the number of that argument."""


def program_graph(walk: Walk, spaces: Spaces, dtype: torch.dtype) -> Graph:
    """The captured graph as a program's.

    Args:
        walk: Through the graph.
        spaces: That were found in it.
        dtype: Of the network's parameters: what is made of that type follows them.
    """
    held = walk.captured.held
    steps: list[Step] = []

    def argument(leaf: Any) -> Any:
        return _argument(leaf, held, dtype)

    for node in walk.captured.graph.nodes:
        if node.op == "call_function":
            target, arguments, keywords = _Resized(walk, spaces, node).call()
            if operation_name(node) in CREATES and _makes(walk.values[node], dtype):
                keywords.setdefault("dtype", dtype)
            try:
                name = name_of(target)
            except InputError as error:
                line = user_line(node)
                raise InputError(f"{error}{f'; at {line}' if line else ''}") from None
            steps.append(
                Step(
                    node.name,
                    name,
                    tuple(_mapped(own, argument) for own in arguments),
                    tuple((key, _mapped(own, argument)) for key, own in keywords.items()),
                    module_path(node),
                )
            )
    outputs = _mapped(walk.captured.outputs, argument)
    return Graph(walk.captured.inputs, tuple(steps), outputs)


def _makes(value: Any, dtype: torch.dtype) -> bool:
    return isinstance(value, Value) and value.number.dtype is dtype


def _argument(leaf: Any, held: Any, dtype: torch.dtype) -> Any:
    if isinstance(leaf, fx.Node):
        return Held(held[leaf.name]) if leaf.name in held else Ref(leaf.name)
    if isinstance(leaf, torch.dtype):
        return Own("dtype") if leaf is dtype else Constant(str(leaf).removeprefix("torch."))
    if isinstance(leaf, torch.device):
        return Own("device")
    if isinstance(leaf, torch.layout | torch.memory_format):
        return Constant(str(leaf).removeprefix("torch."))
    if leaf is None or isinstance(leaf, bool | int | float | str | Size):
        return leaf
    raise InputError(f"the argument {leaf!r} of type {type(leaf).__name__} cannot be kept")


def _mapped(argument: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(argument, list | tuple):
        return tuple(_mapped(own, change) for own in argument)
    if isinstance(argument, dict):
        return {str(key): _mapped(own, change) for key, own in argument.items()}
    return change(argument)


class _Resized:
    """One operation of the graph, its sizes as expressions."""

    def __init__(self, walk: Walk, spaces: Spaces, node: fx.Node) -> None:
        self._walk, self._spaces, self._node = walk, spaces, node
        self._value = walk.values[node]
        self._arguments: list[Any] = list(node.args)

    def call(self) -> tuple[Any, list[Any], dict[str, Any]]:
        """The operation, its arguments and its keywords."""
        name, target = operation_name(self._node), self._node.target
        if target is torch.ops.aten.view.default:
            # What was left out as it changed nothing may be needed at other sizes.
            target = torch.ops.aten.reshape.default
        if name in _SIZED and isinstance(self._value, Value):
            at = _SIZED[name]
            self._arguments[at] = self._shape(self._arguments[at], name)
        elif name == "unflatten":
            start = self._arguments[1] % self._source().number.ndim
            self._arguments[2] = self._shape(self._arguments[2], name, start)
        elif name in ("slice", "select", "narrow"):
            self._bounds(name)
        elif name in (
            "split",
            "split_with_sizes",
            "chunk",
            "unsafe_split",
            "unsafe_chunk",
            "tensor_split",
        ):
            return self._split(target)
        elif self._node in self._walk.group_counts:
            number = 6 if name.startswith("conv") else 1
            groups = self._walk.atoms.roots(self._walk.group_counts[self._node])
            self._arguments[number] = self._sized(groups.tolist())
        return target, self._arguments, dict(self._node.kwargs)

    def _sized(self, owned: Sequence[int]) -> int | Size:
        size = self._spaces.size(owned)
        return size.fixed if size.is_fixed else size

    def _source(self) -> Value:
        value = self._walk.values[self._node.all_input_nodes[0]]
        assert isinstance(value, Value)
        return value

    def _owners(self, value: Value, dim: int) -> list[int]:
        if value.is_view:
            return self._owners_of_view(value, dim)
        owned: list[int] = owners(thin(self._walk.atoms.roots(value.labels)), dim).tolist()
        return owned

    def _owners_of_view(self, value: Value, dim: int) -> list[int]:
        """Whose the positions of a view of a parameter are."""
        assert value.source is not None
        assert value.index is not None
        shape = self._walk.tensors[value.source].shape
        found: list[Tensor] = []
        coordinates = torch.unravel_index(value.index, shape)
        for own, along in enumerate(coordinates):
            if (value.source, own) in self._walk.dims():
                atoms = self._walk.dims()[value.source, own]
                found.append(owners(thin(self._walk.atoms.roots(atoms)[along]), dim))
        if not found:
            return [-1] * value.shape[dim]
        best: list[int] = torch.stack(found).amax(0).tolist()
        return best

    def _shape(self, given: Any, name: str, start: int = 0) -> list[Any]:
        """A shape: of the dimensions from `start` on."""
        assert isinstance(self._value, Value)
        result = []
        for dim, length in enumerate(given, start=start):
            size = self._sized(self._owners(self._value, dim))
            if isinstance(size, int) or length == -1:
                result.append(length)
            elif isinstance(length, int):
                result.append(size)
            elif name in _STRETCHES and self._is_stretched(dim, len(given)):
                raise UnevenError(size.each[0][0])  # no length stands there that could be kept
            else:  # computed from other sizes, with units among its factors
                result.append(-1)
        if result.count(-1) > 1 and name not in _STRETCHES:
            raise InputError(f"the sizes of {place(self._node)} cannot be told from its units")
        return result

    def _is_stretched(self, dim: int, dims: int) -> bool:
        """Does an operation repeat its source along a dimension of what comes out?"""
        source = self._source().shape
        own = dim - (dims - len(source))
        return own < 0 or source[own] == 1

    def _bounds(self, name: str) -> None:
        source, arguments = self._source(), self._arguments
        dim = (arguments[1] if len(arguments) > 1 else 0) % source.number.ndim
        owned = self._owners(source, dim)
        whole = self._spaces.size(owned)
        if whole.is_fixed:
            return

        def moved(bound: Any) -> Any:
            if not isinstance(bound, int) or bound >= len(owned):
                return bound
            return self._sized(owned[: bound % len(owned) if bound < 0 else bound])

        if name == "narrow":
            start, length = arguments[2], arguments[3]
            arguments[2] = moved(start)
            arguments[3] = self._sized(owned[start : start + length])
            return
        for at in (2, 3) if name == "slice" else (2,):
            if len(arguments) > at:
                arguments[at] = moved(arguments[at])

    def _split(self, target: Any) -> tuple[Any, list[Any], dict[str, Any]]:
        """Parts, each of a size of its own."""
        arguments = self._arguments
        dim = arguments[2] if len(arguments) > 2 else 0
        parts: list[Value] = self._value
        sizes = [self._sized(self._owners(part, dim % part.number.ndim)) for part in parts]
        if all(isinstance(size, int) for size in sizes):
            return target, arguments, dict(self._node.kwargs)
        return torch.ops.aten.split_with_sizes.default, [arguments[0], sizes, dim], {}
