"""Groupings: which weights of a network form a group, as functions of its layout.

Each takes any layout and returns its families, so that a grouping works on every network that has
what it needs. The paper has *outgoing* for feed-forward networks (after Scardapane et al. 2017) and
three for LSTMs (Section 4.2): *untied*, *tied* and *iss* (Wen et al. 2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from sparsemble.errors import InputError
from sparsemble.structure.layout import Layout
from sparsemble.structure.products import Matrix
from sparsemble.structure.units import WHOLE, Family, Part, Role, Slot, Space, SpaceKind

Grouping = Callable[[Layout], tuple[Family, ...]]


def outgoing(layout: Layout) -> tuple[Family, ...]:
    """The weights that read an input or a hidden unit."""
    found = [
        Family(f"outgoing {space.name}", slots)
        for space in layout.spaces
        if space.kind.may_go and (slots := _weights(layout, space, Role.CONSUMER))
    ]
    return tuple(found)


def incoming(layout: Layout) -> tuple[Family, ...]:
    """The weights that compute a hidden unit."""
    found = [
        Family(f"incoming {space.name}", slots)
        for space in layout.spaces
        if space.kind is SpaceKind.HIDDEN and (slots := _weights(layout, space, Role.PRODUCER))
    ]
    return tuple(found)


def units(layout: Layout) -> tuple[Family, ...]:
    """All weights of a unit, those that compute it and those that read it: ISS in an LSTM.

    A unit that is only looked up in a table (an embedding's column) owns its part of the table.
    """
    found = [
        Family(space.name, slots)
        for space in layout.spaces
        if space.kind.may_go and (slots := _of_unit(layout, space))
    ]
    return tuple(found)


def rows_columns(layout: Layout) -> tuple[Family, ...]:
    """The rows and the columns of every matrix, rows of gates gate by gate: the paper's tied W."""
    return _matrix_families(layout, by_part=False)


def rows_columns_of_gates(layout: Layout) -> tuple[Family, ...]:
    """The rows and the columns of every gate's own matrix: the paper's untied."""
    return _matrix_families(layout, by_part=True)


GROUPINGS: dict[str, Grouping] = {
    "outgoing": outgoing,
    "incoming": incoming,
    "untied": rows_columns_of_gates,
    "tied": rows_columns,
    "iss": units,
}
"""The groupings that a recipe can name."""


def grouped(layout: Layout, grouping: str | Grouping) -> Layout:
    """The layout with its weights in groups, by a grouping or the name of one."""
    function = GROUPINGS.get(grouping) if isinstance(grouping, str) else grouping
    if not callable(function):
        raise InputError(
            f"grouping {grouping!r} is not one of {', '.join(GROUPINGS)}, nor a function of a "
            "layout"
        )
    layout = layout.ungrouped()
    found = function(layout)
    families = tuple(found) if isinstance(found, Iterable) else (found,)
    if not all(isinstance(family, Family) for family in families):
        raise InputError(f"the grouping {grouping!r} must return families of groups")
    return layout.grouped(families, _name(function))


def _name(function: Grouping) -> str:
    """A library's grouping by its name; one of the user's never has such a name."""
    qualified = getattr(function, "__qualname__", type(function).__qualname__)
    own = f"{function.__module__}:{qualified}"
    return next((name for name, known in GROUPINGS.items() if known is function), own)


def _weights(layout: Layout, space: Space, role: Role) -> tuple[Slot, ...]:
    """The slots of a space with one role that hold weights."""
    return tuple(slot for slot in layout.slots_of(space.name, role) if layout.is_weight(slot))


def _of_unit(layout: Layout, space: Space) -> tuple[Slot, ...]:
    own = [s for s in layout.slots if s.space == space.name and layout.is_weight(s)]
    multiplied = {name for matrix in layout.matrices for name in matrix.parameters}
    made = [slot for slot in own if slot.role is Role.PRODUCER]
    # Layers have a row for each unit they make, tables a column.
    if made and all(slot.dim and slot.parameter not in multiplied for slot in made):
        own = made
    # A tied table's column is owned both as what it emits and as what reads the unit.
    return tuple({(slot.parameter, slot.dim, slot.offset): slot for slot in own}.values())


def _matrix_families(layout: Layout, *, by_part: bool) -> tuple[Family, ...]:
    gated = [matrix for matrix in layout.matrices if matrix.parts]
    elsewhere = {name for matrix in gated for name in matrix.parameters}
    plain: dict[tuple[str, int, str], dict[int, Slot]] = {}
    for slot in layout.slots:
        if layout.is_weight(slot) and slot.parameter not in elsewhere:
            by_offset = plain.setdefault((slot.parameter, slot.dim, slot.space), {})
            by_offset[slot.offset] = slot
    # Units of several spaces may stand side by side along one dimension.
    spaces = Counter((parameter, dim) for parameter, dim, _ in plain)
    families = []
    for (parameter, dim, space), slots in plain.items():
        title = f"{parameter.removesuffix('.weight')} {'columns' if dim else 'rows'}"
        several = spaces[parameter, dim] > 1
        families.append(Family(f"{title} of {space}" if several else title, (*slots.values(),)))
    for matrix in gated:
        families += _gate_families(layout, matrix, by_part=by_part)
    return tuple(families)


def _gate_families(layout: Layout, matrix: Matrix, *, by_part: bool) -> list[Family]:
    """A group for every gate's dimension, and for every unit read, into all gates or into each."""
    parts = {name: Part(number, len(matrix.parts)) for number, name in enumerate(matrix.parts)}
    rows = [row for name in matrix.parameters for row in _slots(layout, name, Role.PRODUCER)]
    made = rows[0].space
    families = [
        Family(f"{made} {gate} gate", tuple(replace(row, tile=1, part=part) for row in rows))
        for gate, part in parts.items()
    ]
    for number, name in enumerate(matrix.parameters):
        read = "reads itself" if number else "reads below"
        for column in _slots(layout, name, Role.CONSUMER):
            for gate, part in parts.items() if by_part else [("", WHOLE)]:
                title = " ".join(filter(None, (made, gate, read)))
                families.append(Family(title, (replace(column, part=part),)))
    return families


def _slots(layout: Layout, parameter: str, role: Role) -> list[Slot]:
    return [slot for slot in layout.slots_on(parameter) if slot.role is role]
