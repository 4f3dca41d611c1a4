"""Recurrent layers, each direction by itself: a unit is a state, with its rows of all gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor, fx

from sparsemble.structure import Role
from sparsemble.tracing.atoms import NONE
from sparsemble.tracing.naming import operation_name, place
from sparsemble.tracing.rules.products import stretch
from sparsemble.tracing.rules.registry import Labels, rule
from sparsemble.tracing.uses import Use
from sparsemble.tracing.values import Value

if TYPE_CHECKING:
    from sparsemble.tracing.walk import Walk

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


@rule(*GATES)
def layer(
    walk: Walk,
    node: fx.Node,
    x: Value,
    state: Any,
    parameters: Sequence[Value],
    biased: bool,
    layers: int,
    dropout: float,
    training: bool,
    both_ways: bool,
    batch_first: bool,
) -> Labels:
    """One layer in one direction, over time."""
    states = list(state) if isinstance(state, list | tuple) else [state]
    steps = x.shape[1 if batch_first else 0]
    unit = _units(walk, node, x, states, parameters, steps)
    if unit is None or layers > 1 or both_ways:
        return None
    batch = x.shape[0 if batch_first else 1]
    own = unit.expand(*x.shape[:-1], len(unit))
    return [own, *(unit.expand(1, batch, len(unit)) for _ in states)]


@rule("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def cell(walk: Walk, node: fx.Node, x: Value, state: Any, *parameters: Value | None) -> Labels:
    """One step of a layer."""
    states = list(state) if isinstance(state, list | tuple) else [state]
    unit = _units(walk, node, x, states, [p for p in parameters if p is not None], 1)
    if unit is None:
        return None
    own = unit.expand(*x.shape[:-1], len(unit))
    return [own, own] if len(states) > 1 else own


def _units(
    walk: Walk,
    node: fx.Node,
    x: Value,
    states: Sequence[Value],
    parameters: Sequence[Value],
    steps: int,
) -> Tensor | None:
    """Unite a layer's weights, biases and states by unit; the units' labels."""
    kind = operation_name(node).removesuffix("_cell")
    gates = GATES[kind]
    whole = all(p.is_view and p.shape == walk.tensors[str(p.source)].shape for p in parameters)
    if len(parameters) not in (2, 4) or not whole:
        walk.pin(f"no rule for projections or computed weights in {place(node)}", x)
        walk.pin(f"used otherwise than as a plain layer by {place(node)}", *states, *parameters)
        return None
    inputs, recurrent, *biases = parameters
    unit = walk.atom(str(recurrent.source), 1)
    for own in parameters:
        rows = walk.atom(str(own.source), 0).view(gates, len(unit))
        walk.atoms.unite(rows, unit)
    labels = walk.labelled(x)
    read = walk.atoms.along(labels, tuple(range(labels.ndim - 1))).flatten()
    columns = walk.atom(str(inputs.source), 1)
    walk.atoms.unite(columns, read)
    if bool((read == NONE).any()):
        walk.atoms.pin(columns[read == NONE], f"values of no known unit read by {place(node)}")
    if not walk.captured.learns(str(inputs.source)):
        walk.atoms.pin(columns, f"read by numbers that do not learn in {place(node)}")
    if not walk.captured.learns(str(recurrent.source)):
        walk.atoms.pin(unit, f"read by numbers that do not learn in {place(node)}")
    bias = stretch(walk, biases[0], 0) if biases else None
    for weight, operand in ((inputs, x.node), (recurrent, None)):
        rows_of, columns_of = stretch(walk, weight, 0), stretch(walk, weight, 1)
        assert rows_of is not None
        assert columns_of is not None
        walk.uses.append(
            Use(
                node=node,
                makes=rows_of,
                reads=columns_of,
                bias=bias,
                operand=operand,
                feature=x.number.ndim - 1,
                pads=False,
                positions=steps,
                kind=kind,
            )
        )
        walk.note(rows_of.name, 0, Role.PRODUCER)
        walk.note(columns_of.name, 1, Role.CONSUMER)
    for own in biases:
        walk.note(str(own.source), 0, Role.BIAS)
    for state in states:
        own_labels = walk.labelled(state)
        if state.data and state.is_partly_unlabelled:
            walk.atoms.feed(unit)
            walk.atoms.pin(unit, f"a state of no known units goes into {place(node)}")
        walk.atoms.unite(own_labels, unit)
    return unit
