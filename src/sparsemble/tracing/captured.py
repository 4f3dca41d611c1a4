"""A network's computation as a graph, by `torch.export`.

In the graph parameters and buffers are placeholders like inputs; operations are those of ATen's
training dialect, in which linear layers, convolutions, normalisations and attention stay whole.
Batch size and, where the network allows it, lengths and picture sizes are left open.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.programs.lengths import Expression
from sparsemble.tracing.exporting import depends_on_data, export
from sparsemble.tracing.naming import module_path, operation_name, user_line
from sparsemble.tracing.standins import with_real_layers

_CHECKS = (
    "_assert_tensor_metadata",
    "_assert_scalar",
    "_assert_async",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "_check_is_size",
)


@dataclass(frozen=True)
class Captured:
    """A network in training or in evaluation."""

    graph: fx.Graph
    tensors: Mapping[str, Tensor]
    """Parameters, buffers and constants, each by its first name."""
    held: Mapping[str, str]
    """The names of tensors by those of their placeholders."""
    inputs: tuple[str, ...]
    """Names of the other placeholders, in the order of the flattened inputs."""
    outputs: Any
    """What it returns: tuples, lists and dicts of nodes."""
    fixed: tuple[tuple[tuple[int, int], ...], ...]
    """Of every input the dimensions that cannot have another length, and that length,"""
    free: tuple[tuple[tuple[int, str], ...], ...]
    """and the others, each with what its length is called."""
    conditions: tuple[Expression, ...]
    """On these lengths: with others the network would be another."""
    any_length: bool
    """Were lengths left open?"""
    learning: frozenset[str]
    """The tensors that learn: parameters that are not frozen."""

    def learns(self, name: str) -> bool:
        """Does a tensor learn?"""
        return name in self.learning


def capture(
    network: nn.Module,
    inputs: tuple[Any, ...],
    named: Mapping[str, Any],
    *,
    training: bool,
    any_length: bool = True,
) -> Captured:
    """Capture a network in one of its modes.

    Args:
        network: Left as it is.
        inputs: Its positional arguments; tensors, or lists, tuples and dicts of them.
        named: Its keyword arguments, alike.
        training: In which mode.
        any_length: Shall other lengths than of the batch be left open, too?
    """
    from sparsemble.tracing.guards import UnknownQuestionError, lengths_of  # imports sympy

    network = copy.deepcopy(network).train(training)
    exported, any_length = export(network, inputs, dict(named), any_length=any_length)
    graph = exported.graph_module.graph
    _inline(exported.graph_module)
    for node in list(graph.nodes):
        if node.op == "call_function" and _is_check(node):
            graph.erase_node(node)
        elif node.target is torch.ops.aten.item.default:
            line = user_line(node)
            raise InputError(depends_on_data(network) + (line and f"; at {line}"))
    with_real_layers(graph)
    _flatten_inputs(graph)
    tensors, held = _tensors(network, exported)
    own = [
        n.name
        for n in graph.nodes
        if n.op == "placeholder" and n.name not in held and n.meta["val"] is not None
    ]
    (result,) = (node for node in graph.nodes if node.op == "output")
    spec = exported.call_spec.out_spec
    assert spec is not None
    outputs = pytree.tree_unflatten(list(result.args[0]), spec)
    _refuse_softmax(result)
    learning = frozenset(n for n, p in network.named_parameters() if p.requires_grad)
    given = [n for n in graph.nodes if n.op == "placeholder" and n.name in own]
    fixed = tuple(_fixed(n) for n in given)
    try:
        free, conditions = lengths_of([n.meta["val"] for n in given])
    except UnknownQuestionError:
        if not any_length:
            raise InputError(
                f"{type(network).__name__} cannot be traced: what it computes depends on how many "
                "examples there are"
            ) from None
        return capture(network, inputs, named, training=training, any_length=False)
    return Captured(
        graph=graph,
        tensors=tensors,
        held=held,
        inputs=tuple(own),
        outputs=outputs,
        fixed=fixed,
        free=free,
        conditions=conditions,
        any_length=any_length,
        learning=learning,
    )


def _tensors(
    network: nn.Module, exported: ExportedProgram
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors by their first names, and those names by placeholder."""
    signature = exported.graph_signature
    names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    tensors: dict[str, Tensor] = {
        **dict(network.named_parameters()),
        **dict(network.named_buffers()),
    }
    first = {id(tensor): name for name, tensor in tensors.items()}
    every = {
        **dict(network.named_parameters(remove_duplicate=False)),
        **dict(network.named_buffers(remove_duplicate=False)),
    }
    held = {}
    for placeholder, name in names.items():
        held[placeholder] = first[id(every[name])]
    constants = {**exported.constants}
    for placeholder, name in signature.inputs_to_lifted_tensor_constants.items():
        own = f"constants.{name}"
        tensors[own] = constants[name].detach().clone()
        held[placeholder] = own
    return tensors, held


def _fixed(node: fx.Node) -> tuple[tuple[int, int], ...]:
    value = node.meta["val"]
    if not isinstance(value, Tensor):
        return ()
    # A length that the network turned out to depend on is still a symbol, but of one number.
    return tuple((dim, int(str(n))) for dim, n in enumerate(value.shape) if str(n).isdigit())


def _refuse_softmax(result: fx.Node) -> None:
    """Networks return logits."""
    for node in result.all_input_nodes[:1]:
        if node.target is torch.ops.aten.softmax.int:
            where, line = module_path(node), user_line(node)
            raise InputError(
                f"{where or 'the network'} ends in a {operation_name(node)}: networks return "
                "logits, the ensemble turns them into probabilities itself; remove "
                f"{line or 'this layer'}"
            )


def _flatten_inputs(graph: fx.Graph) -> None:
    """An input that is only ever laid flat says so, whatever shape it has."""
    aten = torch.ops.aten
    flat = (aten.flatten.using_ints, aten.view.default, aten.reshape.default)
    for node in graph.nodes:
        if node.op == "placeholder" and node.users and isinstance(node.meta.get("val"), Tensor):
            shape = node.meta["val"].shape
            laid = [user.meta["val"].shape for user in node.users if user.target in flat]
            if len(laid) == len(node.users) and all(
                len(own) == 2 and own[1] == shape[1:].numel() for own in laid
            ):
                for user in list(node.users):
                    user.target, user.args = aten.flatten.using_ints, (node, 1)


def _is_check(node: fx.Node) -> bool:
    return operation_name(node) in _CHECKS and not node.users


def _inline(module: fx.GraphModule) -> None:
    """Put what runs without gradients, or without autocast, where it is called."""
    graph = module.graph
    higher = torch.ops.higher_order
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is higher.wrap_with_set_grad_enabled:
            enabled, inner, *arguments = node.args
        elif node.target is higher.wrap_with_autocast:
            _device, _dtype, on, _cache, inner, *arguments = node.args
            if on:
                raise InputError(
                    "the network switches autocast on by itself: leave that to chain.autocast"
                )
            enabled = True
        else:
            continue
        body = getattr(module, str(inner.target))
        _inline(body)
        _copy_body(graph, node, body.graph, arguments, detach=not enabled)
    for node in list(graph.nodes):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)


def _copy_body(
    graph: fx.Graph, node: fx.Node, body: fx.Graph, arguments: Sequence[Any], *, detach: bool
) -> None:
    known: dict[fx.Node, Any] = {}
    given = iter(arguments)
    results: Any = ()
    with graph.inserting_before(node):
        for inner in body.nodes:
            if inner.op == "placeholder":
                known[inner] = next(given)
            elif inner.op == "output":
                results = fx.node.map_arg(inner.args[0], known.__getitem__)
            else:
                known[inner] = graph.node_copy(inner, known.__getitem__)
        if detach:
            results = fx.node.map_arg(
                results, lambda n: graph.call_function(torch.ops.aten.detach.default, (n,))
            )
    several = isinstance(results, list | tuple)
    for user in list(node.users):
        if several and user.op == "call_function" and user.target is operator.getitem:
            user.replace_all_uses_with(results[user.args[1]])
            graph.erase_node(user)
    if not several:
        node.replace_all_uses_with(results)
    graph.erase_node(node)
