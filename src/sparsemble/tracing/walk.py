"""One walk through a traced run: every value gets labels, every weight's use is noted.

Values are computed beside their labels, as indices and shapes need them. An operation has a rule
(`rules`), or only moves data, and is then done to the labels themselves, or works element by
element; any other *pins* what it reads: such units stay, and nothing is said of what comes out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from sparsemble.structure import Role
from sparsemble.tracing.atoms import Atoms, thin, unlabelled
from sparsemble.tracing.captured import Captured
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.rules import RULES, Labels
from sparsemble.tracing.rules.moves import ALIKE, CREATES, MOVES
from sparsemble.tracing.rules.pointwise import is_pointwise, pointwise
from sparsemble.tracing.uses import ActivationProduct, Grouped, Meeting, Need, Use
from sparsemble.tracing.values import Value

_MOST_LOOSE = 200_000
"""Larger tensors that are made of nothing get no atoms: they belong to no unit."""


_COPIES_WORDS = "to contiguous clone detach alias _to_copy add_ lift_fresh_copy"
_COPIES = frozenset(_COPIES_WORDS.split())


class Walk:
    """A run of a captured network on some examples, with labels.

    Args:
        captured: The network.
        inputs: Its inputs, flat.
        examples: How many they are; the length of the first by default.
    """

    def __init__(
        self, captured: Captured, inputs: Sequence[Tensor], examples: int | None = None
    ) -> None:
        self.captured = captured
        self.tensors = captured.tensors
        self.atoms = Atoms()
        lengths = (len(own) for own in inputs if own.ndim)
        self.batch = next(lengths, 1) if examples is None else examples
        self.values: dict[fx.Node, Any] = {}
        self.uses: list[Use] = []
        self.grouped: list[Grouped] = []
        self.products: list[ActivationProduct] = []
        self.roles: dict[tuple[str, int], dict[Role, None]] = {}
        self.group_counts: dict[fx.Node, Tensor] = {}
        """Labels of the first channel of every group, of operations that say how many there are."""
        self.needs: list[Need] = []
        self.meetings: list[Meeting] = []
        self.result: Any = None
        """What the operation computes whose rule is asked."""
        self.input_labels: list[Tensor] = []
        self.output_labels: list[Tensor] = []
        self._dims: dict[tuple[str, int], Tensor] = {}
        self._elements: dict[str, Tensor] = {}
        with torch.no_grad():
            self._run(inputs)

    # What rules use

    def atom(self, name: str, dim: int) -> Tensor:
        """The atoms along one dimension of a parameter or buffer."""
        if (name, dim) not in self._dims:
            self._dims[name, dim] = self.atoms.fresh(self.tensors[name].shape[dim])
        return self._dims[name, dim]

    def dims(self) -> Mapping[tuple[str, int], Tensor]:
        """The atoms of all dimensions that have been asked for."""
        return self._dims

    def elements(self) -> Mapping[str, Tensor]:
        """The atoms of parameters that are used like data, one for every element."""
        return self._elements

    def note(self, name: str, dim: int, role: Role) -> None:
        """A dimension of a parameter has this role for its units."""
        self.roles.setdefault((name, dim), {})[role] = None

    def labelled(self, value: Value) -> Tensor:
        """A value's labels; a view of a parameter that is used like data gets one per element."""
        if value.source is not None and value.index is not None and value.is_unlabelled:
            if value.source not in self._elements:
                count = self.tensors[value.source].numel()
                self._elements[value.source] = self.atoms.fresh(count)
            value.labels = self._elements[value.source][value.index]
        return value.labels

    def pin(self, reason: str, *values: Value) -> None:
        """What these values hold stays."""
        for value in values:
            self.atoms.pin(value.labels, reason)
            if value.source is not None:
                for dim in range(self.tensors[value.source].ndim):
                    self.atoms.pin(self.atom(value.source, dim), reason)

    def need_all(self, labels: Tensor, dims: Sequence[int], reason: str) -> None:
        """If units change along `dims` when all is known, those of these labels stay."""
        self.needs.append(Need(labels, tuple(dim % labels.ndim for dim in dims), reason))

    def feed_if_mixed(self, *values: Value) -> None:
        """Units that meet data of no unit have values that are not made by their weights alone."""
        if any(value.data and value.is_partly_unlabelled for value in values):
            for value in values:
                self.atoms.feed(value.labels)

    # The run

    def _run(self, inputs: Sequence[Tensor]) -> None:
        given = iter(inputs)
        for node in self.captured.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self._opened(node, given)
            elif node.op == "call_function":
                self.values[node] = self._stepped(node)
            elif node.op == "output":
                leaves = [self.values.get(arg) for arg in node.all_input_nodes]
                self.output_labels = [v.labels for v in leaves if isinstance(v, Value)]

    def _opened(self, node: fx.Node, given: Any) -> Value:
        if node.name in self.captured.held:
            name = self.captured.held[node.name]
            tensor = self.tensors[name]
            index = torch.arange(tensor.numel()).view(tensor.shape)
            copy = tensor.detach().clone()  # a training run changes statistics
            return Value(unlabelled(tensor.shape), copy, node, name, index)
        number = next(given)
        labels = unlabelled(number.shape)
        if number.is_floating_point() and number.ndim:
            features = number.shape[1:]
            labels = self.atoms.fresh(features.numel()).view(features).expand(number.shape)
            self.atoms.feed(labels)
        self.input_labels.append(labels)
        return Value(labels, number, node, data=True)

    def _stepped(self, node: fx.Node) -> Any:
        both: Any = fx.node.map_arg((node.args, node.kwargs), self.values.__getitem__)
        args, kwargs = both
        leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=_is_value)

        def call(function: Callable[..., Any], pick: Callable[[Value], Any]) -> Any:
            picked = [pick(leaf) if _is_value(leaf) else leaf for leaf in leaves]
            own_args, own_kwargs = pytree.tree_unflatten(picked, spec)
            return function(*own_args, **own_kwargs)

        values = [leaf for leaf in leaves if _is_value(leaf)]
        if node.target is operator.getitem and not isinstance(args[0], Value):
            picked = args[0][args[1]]
            return replace(picked, node=node) if isinstance(picked, Value) else picked
        number = call(_function(node), lambda value: value.number)
        if not isinstance(number, Tensor | list | tuple):
            return number  # a size
        name = operation_name(node)
        if _writes_into_a_part(node, values):
            self.pin(f"written into a part of another tensor by {place(node)}", *values)
        if name in MOVES:
            return self._moved(node, values, number, call)
        if name in CREATES:
            assert isinstance(number, Tensor)
            own = self._loose(number) if name in ALIKE else unlabelled(number.shape)
            return Value(own, number, node)
        labels: Labels
        self.result = number
        if name in RULES:
            labels = RULES[name](self, node, *args, **kwargs)
        elif (is_pointwise(node) or name == "lift_fresh_copy") and isinstance(number, Tensor):
            if (same := self._same_parameter(name, values)) is not None:
                return same
            labels = pointwise(self, node, values)
        else:
            self.pin(f"no rule says what {place(node)} does with units", *values)
            labels = None
        return self._wrapped(node, number, labels, data=any(value.data for value in values))

    def _same_parameter(self, name: str, values: Sequence[Value]) -> Value | None:
        """A parameter that is only copied, or a counter that is counted up."""
        return values[0] if len(values) == 1 and values[0].is_view and name in _COPIES else None

    def _moved(self, node: fx.Node, values: Sequence[Value], number: Any, call: Any) -> Any:
        """The operation itself, done to labels, or to positions within a parameter."""
        function = _function(node)
        if len(values) == 1 and values[0].is_view and values[0].is_unlabelled:
            only = values[0]
            index = call(function, lambda value: value.index)

            def view(number: Tensor, index: Tensor) -> Value:
                return Value(unlabelled(index.shape), number, node, only.source, index)

            if isinstance(index, Tensor):
                return view(number, index)
            return [view(n, i) for n, i in zip(number, index, strict=True)]
        for value in values:
            self.labelled(value)
        expands = operation_name(node) in ("expand", "expand_as", "repeat", "broadcast_to")
        if expands and values[0].is_unlabelled:
            labels = self._loose_where_expanded(values[0], number)
        else:
            labels = call(function, lambda value: value.labels)
        return self._wrapped(node, number, labels, data=any(value.data for value in values))

    def _loose(self, number: Tensor) -> Tensor:
        """Labels of a tensor that is made of nothing: whatever units it meets are its own."""
        if not number.ndim or number.numel() > _MOST_LOOSE:
            return unlabelled(number.shape)
        return self.atoms.fresh(number.numel(), loose=True).view(number.shape)

    def _loose_where_expanded(self, value: Value, number: Tensor) -> Tensor:
        """Labels of copies: they differ along the dimensions in which there are more now."""
        before = [1] * (number.ndim - value.number.ndim) + list(value.shape)
        lengths = [new if new != old else 1 for new, old in zip(number.shape, before, strict=True)]
        count = torch.Size(lengths).numel()
        if count == 1 or count > _MOST_LOOSE:
            return unlabelled(number.shape)
        return self.atoms.fresh(count, loose=True).view(lengths).expand(number.shape)

    def _wrapped(self, node: fx.Node, number: Any, labels: Any, *, data: bool) -> Any:
        if isinstance(number, Tensor):
            labels = unlabelled(number.shape) if labels is None else labels
            assert labels.shape == number.shape, f"{node.name}: {labels.shape} {number.shape}"
            return Value(thin(labels), number, node, data=data)
        labels = [None] * len(number) if labels is None else labels
        return [
            self._wrapped(node, n, own, data=data) for n, own in zip(number, labels, strict=True)
        ]


def _is_value(leaf: object) -> bool:
    return isinstance(leaf, Value)


def _function(node: fx.Node) -> Callable[..., Any]:
    """The operation; a view is made even of what does not lie in one piece."""
    assert callable(node.target)
    view = torch.ops.aten.view.default
    return torch.ops.aten.reshape.default if node.target is view else node.target


def _writes_into_a_part(node: fx.Node, values: Sequence[Value]) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or not values or values[0].source is not None:
        return False
    first = node.args[0]
    return (
        isinstance(first, fx.Node)
        and first.op == "call_function"
        and operation_name(first) in MOVES
    )
