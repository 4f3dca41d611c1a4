"""Any network, described: its layout and its program, from a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.caller_modes import in_own_modes
from sparsemble.errors import InputError, shortened
from sparsemble.programs import Blueprint, InputRange, Program
from sparsemble.programs.program import paths_of
from sparsemble.programs.tensors import tensors_of
from sparsemble.programs.writing import is_name
from sparsemble.streams import borrowed_streams
from sparsemble.structure import Layout, Slot, Space
from sparsemble.tracing.captured import Captured, capture
from sparsemble.tracing.checking import (
    check_compaction,
    check_examples,
    check_program,
    check_training,
)
from sparsemble.tracing.conditions import relaxed
from sparsemble.tracing.layouts import layout_of
from sparsemble.tracing.rectangles import settle
from sparsemble.tracing.refused_layers import check_layers
from sparsemble.tracing.resizing import program_graph
from sparsemble.tracing.spaces import Spaces, UnevenError, find_spaces
from sparsemble.tracing.walk import Walk


@dataclass(frozen=True)
class Traced:
    """A network as a program, and the layout of its units."""

    program: Program
    layout: Layout

    def __str__(self) -> str:
        """Its units, and why those that stay have to."""
        return "\n".join(map(_line, self.layout.spaces))


def _line(space: Space) -> str:
    several = space.size != 1
    what = f"{space.size} {space.noun if several else space.noun.removesuffix('s')}"
    if space.kind.may_go:
        return f"{space.name}: {what}, may go"
    return f"{space.name}: {what}, {'stay' if several else 'stays'}: {space.reason}"


def describe(network: nn.Module, *inputs: Any, examples: int | None = None, **named: Any) -> Traced:
    """Trace a network on an example of its inputs, and check that it can be made smaller.

    Args:
        network: Any; it is left as it is.
        inputs: What it is called with: tensors, or tuples and dicts of them, two examples at least.
        examples: How many they are, by which FLOPs are counted; the length of the first by default.
        named: What it is called with by name.

    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(32, 5))
    >>> [(s.name, s.size) for s in describe(net, torch.rand(2, 1, 4, 4)).layout.spaces]
    [('inputs', 1), ('0', 8), ('outputs', 5)]
    """
    return described(network, inputs, named, examples)


@in_own_modes
def described(
    network: nn.Module,
    inputs: tuple[Any, ...],
    named: Mapping[str, Any] | None = None,
    examples: int | None = None,
    *,
    along: int = 0,
) -> Traced:
    """`describe`, where another dimension than the first may count examples.

    Args:
        network: Any.
        inputs: What it is called with,
        named: and by name.
        examples: How many they are.
        along: The dimension that counts them.
    """
    named = named or {}
    if not isinstance(network, nn.Module):
        raise InputError(f"a network is described, and {shortened(repr(network))} is none")
    traced = trace(network, inputs, named, examples)
    check_program(traced.program, network, inputs, named)
    check_examples(traced.program, along)
    check_training(traced.program)
    traced = replace(traced, program=relaxed(traced.program, network, inputs, named))
    check_compaction(traced.program, traced.layout)
    return traced


def trace(
    network: nn.Module,
    inputs: tuple[Any, ...],
    named: Mapping[str, Any],
    examples: int | None = None,
) -> Traced:
    """`describe` without the checks."""
    given = paths_of(inputs, named)
    leaves = list(given.values())
    _check_inputs(leaves)
    if empty := [name for name, p in network.named_parameters() if p.is_meta]:
        raise InputError(f"the weights ({empty[0]}, …) are on the meta device: give them numbers")
    if odd := [name for name in tensors_of(network) if not is_name(name)]:
        raise InputError(
            f"the network holds {odd[0]!r}, a name that no file could keep: call its parts without "
            "quotation marks, backslashes and line breaks"
        )
    check_layers(network)
    evaluating, training = _captured(network, inputs, named)
    walk, other_walk = _walked(evaluating, leaves, examples), _walked(training, leaves, examples)
    while True:
        spaces, other = find_spaces(walk), find_spaces(other_walk)
        if differing := _differing(spaces, other):
            _pin_slots((walk, other_walk), differing, "not the same in training and evaluation")
            continue
        try:
            return _traced(network, given, tuple(named), (walk, spaces), (other_walk, other))
        except UnevenError as error:
            uneven = [slot for slot in spaces.slots if slot.space == error.space]
            reason = "its places follow no pattern that sizes could be told from"
            _pin_slots((walk, other_walk), [(s, spaces.size_of(s.space)) for s in uneven], reason)


def _traced(
    network: nn.Module,
    given: Mapping[str, Tensor],
    named: tuple[str, ...],
    in_evaluation: tuple[Walk, Spaces],
    in_training: tuple[Walk, Spaces],
) -> Traced:
    walk, spaces = in_evaluation
    evaluating, training = walk.captured, in_training[0].captured
    layout = layout_of(walk, spaces)
    dtype = next((p.dtype for p in network.parameters()), torch.get_default_dtype())
    tensors = {name: tensor.detach().clone() for name, tensor in evaluating.tensors.items()}
    tensors |= {n: t.detach().clone() for n, t in training.tensors.items() if n not in tensors}
    blueprint = Blueprint(
        training=program_graph(*in_training, dtype),
        evaluating=program_graph(*in_evaluation, dtype),
        tensors=tuple(tensors),
        parameters=frozenset(name for name, _ in network.named_parameters()),
        frozen=frozenset(n for n, p in network.named_parameters() if not p.requires_grad),
        aliases=_aliases(network),
        inputs=tuple(
            InputRange.of(leaf, () if layout.inputs is not None else fixed, free)
            for leaf, fixed, free in zip(
                given.values(), evaluating.fixed, evaluating.free, strict=True
            )
        ),
        conditions=tuple(dict.fromkeys((*evaluating.conditions, *training.conditions))),
        named=named,
        paths=tuple(given),
    )
    return Traced(Program(blueprint, tensors, layout.sizes), layout)


def _captured(
    network: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[Captured, Captured]:
    """The network in evaluation and in training, for the same lengths of its inputs."""
    any_length = True
    while True:
        evaluating, training = (
            capture(network, inputs, named, training=mode, any_length=any_length)
            for mode in (False, True)
        )
        alike = (evaluating.fixed, evaluating.free) == (training.fixed, training.free)
        if alike or not any_length:
            return evaluating, training
        any_length = False


def _check_inputs(leaves: Sequence[Any]) -> None:
    if not leaves:
        raise InputError("a network is traced with an example of its inputs: give some tensors")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise InputError(
                f"an input {shortened(repr(leaf), 60)}: only tensors can be (torch.from_numpy "
                "makes one of an array); write a network around yours that calls it with others"
            )
        if leaf.ndim and leaf.shape[0] < 2:
            raise InputError(
                f"an input of shape {tuple(leaf.shape)}: give two examples at least, or what is "
                "the same for one only is taken to be the same always"
            )


def _walked(captured: Captured, leaves: Sequence[Tensor], examples: int | None) -> Walk:
    with borrowed_streams():  # dropout draws
        walk = Walk(captured, leaves, examples)
    settle(walk)
    return walk


def _differing(first: Spaces, second: Spaces) -> list[tuple[Slot, int]]:
    """Where units may go in one mode that are not the same in the other, and how many."""

    def going(spaces: Spaces) -> dict[object, list[Slot]]:
        found: dict[object, list[Slot]] = {}
        for space in spaces.spaces:
            if space.kind.may_go:
                own = [slot for slot in spaces.slots if slot.space == space.name]
                key = (space.name, space.size, space.kind, tuple(sorted(map(str, own))))
                found[key] = own
        return found

    one, other = going(first), going(second)
    return [
        (slot, spaces.size_of(slot.space))
        for spaces, mine, others in ((first, one, other), (second, other, one))
        for key, slots in mine.items()
        if key not in others
        for slot in slots
    ]


def _pin_slots(walks: Sequence[Walk], slots: Sequence[tuple[Slot, int]], reason: str) -> None:
    """What these slots hold stays, in all walks."""
    for walk in walks:
        for slot, size in slots:
            atoms = walk.atom(slot.parameter, slot.dim)
            walk.atoms.pin(atoms[slot.indices(size).flatten()], reason)


def _aliases(network: nn.Module) -> tuple[tuple[str, str], ...]:
    """Further names of tied parameters and buffers."""
    first = {id(t): n for n, t in (*network.named_parameters(), *network.named_buffers())}
    every = (
        *network.named_parameters(remove_duplicate=False),
        *network.named_buffers(remove_duplicate=False),
    )
    return tuple((first[id(t)], name) for name, t in every if first[id(t)] != name)
