"""The layout of a traced network: its units, what it multiplies, and where they meet."""

from __future__ import annotations

from dataclasses import replace

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
from sparsemble.tracing.naming import module_path
from sparsemble.tracing.rectangles import owners
from sparsemble.tracing.rules.recurrent import GATES
from sparsemble.tracing.spaces import Spaces
from sparsemble.tracing.uncounted import computed_of, multiplied, uncounted_flops
from sparsemble.tracing.uses import Stretch, Use
from sparsemble.tracing.walk import Walk


def layout_of(walk: Walk, spaces: Spaces) -> Layout:
    """The layout of a walked network with these spaces."""
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
        unpruned=sum(walk.tensors[name].numel() for name in _unpruned(walk, found, slots)),
    )
    layout.check(walk.tensors)
    return layout


def _add_fixed(walk: Walk, spaces: list[Space], slots: list[Slot]) -> None:
    """A space for the rows of weights of which nothing is known: they are pruned all the same."""

    def add(weight: str, dim: int, reason: str) -> None:
        size, name = walk.tensors[weight].shape[dim], f"rows of {weight}"
        spaces.insert(0, Space(name, size, SpaceKind.FIXED, reason=reason))
        slots.append(Slot(weight, dim, name, Role.PRODUCER))

    for use in walk.uses:
        if not any((s.parameter, s.dim) == (use.weight, use.makes.dim) for s in slots):
            add(use.weight, use.makes.dim, "of no regular pattern")
    known = {slot.parameter for slot in slots}
    for name in multiplied(walk):
        if name not in known and walk.tensors[name].ndim > 1 and walk.captured.learns(name):
            add(name, 0, "multiplied in a way that no rule knows")


def _unpruned(walk: Walk, spaces: list[Space], slots: list[Slot]) -> list[str]:
    """The weights that others are computed of, none of whose units can go."""
    staying = {space.name for space in spaces if not space.kind.may_go}
    known = {own.parameter for own in slots if own.role.is_weight or own.space not in staying}
    return [
        name
        for name in computed_of(walk)
        if name not in known and walk.tensors[name].ndim > 1 and walk.captured.learns(name)
    ]


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
        total = Size(roots.numel() * product.flops)
        for dim in range(roots.ndim):
            size = spaces.size(owners(roots, dim).tolist())
            if not size.is_fixed:
                each = roots.numel() // roots.shape[dim] * product.flops
                units = tuple((space, count * each) for space, count in size.each)
                total = Size(size.fixed * each, units)
                break
        name = f"{module_path(product.node)} product {number + 1}"
        found.append(UnitProduct(name, total, walk.batch))
    if other := uncounted_flops(walk):
        found.append(UnitProduct("products of no units", Size(other), walk.batch))
    return found
