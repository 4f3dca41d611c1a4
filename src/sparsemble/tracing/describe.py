"""Any network, described: its layout and its program, from a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.programs import Blueprint, InputRange, Program
from sparsemble.structure import (
    Layout,
    Link,
    Matrix,
    Range,
    Role,
    Size,
    Slot,
    Space,
    SpaceKind,
    UnitProduct,
)
from sparsemble.tracing.atoms import thin
from sparsemble.tracing.captured import Captured, capture
from sparsemble.tracing.checking import check_compaction, check_program, check_training
from sparsemble.tracing.naming import module_path
from sparsemble.tracing.rectangles import owners, settle
from sparsemble.tracing.resizing import program_graph
from sparsemble.tracing.rules.recurrent import GATES
from sparsemble.tracing.spaces import Spaces, UnevenError, find_spaces
from sparsemble.tracing.uses import Stretch, Use
from sparsemble.tracing.walk import Walk


@dataclass(frozen=True)
class Traced:
    """A network as a program, and the layout of its units."""

    program: Program
    layout: Layout

    def __str__(self) -> str:
        """Its units, and why those that stay have to."""
        return "\n".join(
            f"{space.name}: {space.size} {space.noun}, "
            + ("may go" if space.kind.may_go else f"stay: {space.reason}")
            for space in self.layout.spaces
        )


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
    traced = trace(network, inputs, named, examples)
    check_program(traced.program, network, inputs, named)
    check_training(traced.program)
    check_compaction(traced.program, traced.layout)
    return traced


def trace(
    network: nn.Module,
    inputs: tuple[Any, ...],
    named: Mapping[str, Any] | None = None,
    examples: int | None = None,
) -> Traced:
    """`describe` without the checks."""
    named = named or {}
    leaves = [leaf for leaf in pytree.tree_leaves((inputs, dict(named))) if leaf is not None]
    _check_inputs(leaves)
    evaluating = capture(network, inputs, named, training=False)
    training = capture(network, inputs, named, training=True)
    walk, other_walk = _walked(evaluating, leaves, examples), _walked(training, leaves, examples)
    while True:
        spaces, other = find_spaces(walk), find_spaces(other_walk)
        if differing := _differing(spaces, other):
            _pin_slots((walk, other_walk), differing, "not the same in training and evaluation")
            continue
        try:
            return _traced(network, leaves, tuple(named), (walk, spaces), (other_walk, other))
        except UnevenError as error:
            uneven = [slot for slot in spaces.slots if slot.space == error.space]
            reason = "its places follow no regular pattern"
            _pin_slots((walk, other_walk), [(s, spaces.size_of(s.space)) for s in uneven], reason)


def _traced(
    network: nn.Module,
    leaves: Sequence[Tensor],
    named: tuple[str, ...],
    in_evaluation: tuple[Walk, Spaces],
    in_training: tuple[Walk, Spaces],
) -> Traced:
    walk, spaces = in_evaluation
    evaluating, training = walk.captured, in_training[0].captured
    layout = _layout(walk, spaces)
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
            for leaf, fixed, free in zip(leaves, evaluating.fixed, evaluating.free, strict=True)
        ),
        conditions=evaluating.conditions,
        named=named,
    )
    return Traced(Program(blueprint, tensors, layout.sizes), layout)


def _check_inputs(leaves: Sequence[Any]) -> None:
    if not leaves:
        raise InputError("a network is traced with an example of its inputs: give some tensors")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise InputError(
                f"an input {leaf!r}: only tensors can be; write a network around yours that calls "
                "it with this"
            )
        if leaf.ndim and leaf.shape[0] < 2:
            raise InputError(
                f"an input of shape {tuple(leaf.shape)}: give two examples at least, or what is "
                "the same for one only is taken to be the same always"
            )


def _walked(captured: Captured, leaves: Sequence[Tensor], examples: int | None) -> Walk:
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


def _layout(walk: Walk, spaces: Spaces) -> Layout:
    found, slots = list(spaces.spaces), list(spaces.slots)
    _add_fixed(walk, found, slots)
    if not any(space.kind is SpaceKind.OUTPUT for space in found):
        found.append(Space("outputs", _outputs(walk), SpaceKind.OUTPUT, reason="an output"))
    layout = Layout(
        tuple(found),
        tuple(slots),
        tuple(_matrices(walk, spaces)),
        name="traced",
        links=tuple(_link(walk, spaces, use) for use in walk.uses),
        products=tuple(_products(walk, spaces)),
        constants=frozenset(walk.tensors) - walk.captured.learning,
    )
    layout.check(walk.tensors)
    return layout


def _add_fixed(walk: Walk, spaces: list[Space], slots: list[Slot]) -> None:
    """A space for the rows of weights of which nothing is known: they are pruned all the same."""
    for use in walk.uses:
        if not any(s.parameter == use.weight and s.role.is_weight for s in slots):
            name, dim = f"rows of {use.weight}", use.makes.dim
            size = walk.tensors[use.weight].shape[dim]
            spaces.insert(0, Space(name, size, SpaceKind.FIXED, reason="of no regular pattern"))
            slots.append(Slot(use.weight, dim, name, Role.PRODUCER))


def _outputs(walk: Walk) -> int:
    labels = walk.output_labels
    return int(labels[0].shape[-1]) if labels and labels[0].ndim else 1


def _range(walk: Walk, spaces: Spaces, where: Stretch) -> Range:
    roots = walk.atoms.roots(walk.atom(where.name, where.dim)).tolist()
    return Range(spaces.size(roots[: where.start]), spaces.size(roots[: where.stop]))


def _link(walk: Walk, spaces: Spaces, use: Use) -> Link:
    bias = use.bias
    if bias is not None and bias.name in walk.elements():
        bias = None  # it is used otherwise, too
    return Link(
        weight=use.weight,
        makes=use.makes.dim,
        reads=use.reads.dim,
        rows=_range(walk, spaces, use.makes),
        columns=_range(walk, spaces, use.reads),
        bias=None if bias is None else bias.name,
        bias_rows=None if bias is None else _range(walk, spaces, bias),
        value=None if use.operand is None else use.operand.name,
        feature=use.feature,
        pads=use.pads,
    )


def _matrices(walk: Walk, spaces: Spaces) -> list[Matrix]:
    """What is multiplied; a recurrent layer's two weights are one matrix."""
    found: dict[str, Matrix] = {}

    def add(matrix: Matrix) -> None:
        name, number = matrix.name, 2
        while name in found:
            name, number = f"{matrix.name} ({number})", number + 1
        found[name] = replace(matrix, name=name)

    recurrent = [use for use in walk.uses if use.kind in GATES]
    for use in walk.uses:
        if use.kind in GATES:
            if use.operand is not None:
                other = next(u for u in recurrent if u.node is use.node and u.operand is None)
                name = module_path(use.node) or use.node.name
                weights = (use.weight, other.weight)
                area = _area(walk, spaces, use.makes, use.reads, other.reads)
                add(Matrix(name, weights, positions=use.positions, area=area))
            continue
        shape = walk.tensors[use.weight].shape
        length = shape[use.makes.dim]
        whole = use.makes.start == 0 and use.makes.stop == length
        add(
            Matrix(
                use.weight.removesuffix(".weight"),
                (use.weight,),
                positions=use.positions,
                rows=None if whole else _range(walk, spaces, use.makes),
                makes=use.makes.dim,
                area=_area(walk, spaces, use.makes, use.reads),
            )
        )
    for own in walk.grouped:
        rows = Stretch(own.weight, 0, 0, walk.tensors[own.weight].shape[0])
        add(
            Matrix(
                own.weight.removesuffix(".weight"),
                (own.weight,),
                positions=own.positions,
                area=_area(walk, spaces, rows),
            )
        )
    return list(found.values())


def _area(walk: Walk, spaces: Spaces, makes: Stretch, *reads: Stretch) -> tuple[Size, Size] | None:
    """Rows and columns of a matrix that does not learn; `None` of one that does."""
    if walk.captured.learns(makes.name):
        return None
    columns = Size()
    shape = walk.tensors[makes.name].shape
    for own in reads:
        roots = walk.atoms.roots(walk.atom(own.name, own.dim)).tolist()
        each = shape.numel() // shape[makes.dim] // shape[own.dim]
        columns += spaces.size(roots[own.start : own.stop]) * each
    if not reads:  # in groups
        columns = Size(shape[1:].numel())
    roots = walk.atoms.roots(walk.atom(makes.name, makes.dim)).tolist()
    return spaces.size(roots[makes.start : makes.stop]), columns


def _products(walk: Walk, spaces: Spaces) -> list[UnitProduct]:
    """Products of two activations: their FLOPs follow the heads."""
    found = []
    for number, product in enumerate(walk.products):
        roots = thin(walk.atoms.roots(product.labels))
        total = Size(roots.numel() * product.flops // walk.batch)
        for dim in range(roots.ndim):
            size = spaces.size(owners(roots, dim).tolist())
            if not size.is_fixed:
                each = roots.numel() // roots.shape[dim] * product.flops // walk.batch
                units = tuple((space, count * each) for space, count in size.each)
                total = Size(size.fixed * each, units)
                break
        found.append(UnitProduct(f"{module_path(product.node)} product {number + 1}", total))
    return found
