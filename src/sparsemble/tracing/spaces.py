"""From united atoms to spaces and slots.

A unit is a class of atoms: some positions along dimensions of parameters. Units that stand alike
everywhere, in parameters and in what the run computes, form a space; their positions must follow
the arithmetic of slots, or they stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, fx

from sparsemble.structure import Folds, Part, Role, Size, Slot, Space, SpaceKind
from sparsemble.tracing.atoms import NONE, present, thin
from sparsemble.tracing.naming import operation_name
from sparsemble.tracing.rectangles import owners, values_of
from sparsemble.tracing.rules.recurrent import GATES
from sparsemble.tracing.walk import Walk

Place = tuple[str, int]
"""A dimension of a tensor."""
_INPUT = "an input"
_WRITING_GATE = {"lstm": 2, "gru": 2, "rnn_tanh": 0, "rnn_relu": 0}
"""The gate whose rows write the state: without them it stays at zero."""


@dataclass
class _Unit:
    """What is known of one unit."""

    root: int
    places: dict[Place, list[int]] = field(default_factory=dict)
    first: int = sys.maxsize
    """The number of the first thing the run computes that it stands in,"""
    appears: list[tuple[int, int, int]] = field(default_factory=list)
    """How often it stands along dimensions of what the run computes."""
    kind: SpaceKind = SpaceKind.FIXED
    folds: Folds = Folds.ALL
    noun: str = "units"
    reason: str = ""

    @property
    def likeness(self) -> tuple[object, ...]:
        """What units of one space have in common."""
        places = tuple(sorted((*place, len(own)) for place, own in self.places.items()))
        return (self.kind, self.folds, self.noun, self.reason, places, tuple(self.appears))


class UnevenError(Exception):
    """Some units of a space stand where others do not: no size can be told from their number."""

    def __init__(self, space: str) -> None:
        super().__init__(space)
        self.space = space


@dataclass(frozen=True)
class Spaces:
    """The spaces of a traced network, their slots, and whose positions are whose."""

    spaces: tuple[Space, ...]
    slots: tuple[Slot, ...]
    owner: Mapping[int, str]
    """The space of every unit that may go, by the root of its atoms."""

    def size_of(self, name: str) -> int:
        """How many units a space has."""
        return next(space.size for space in self.spaces if space.name == name)

    def size(self, owned: Iterable[int]) -> Size:
        """How many of these positions there are, as units go."""
        counts: dict[str, int] = {}
        fixed = 0
        for root in owned:
            space = self.owner.get(root)
            if space is None:
                fixed += 1
            else:
                counts[space] = counts.get(space, 0) + 1
        sizes = {space.name: space.size for space in self.spaces}
        each = []
        for space, count in sorted(counts.items()):
            if count % sizes[space]:
                raise UnevenError(space)
            each.append((space, count // sizes[space]))
        return Size(fixed, tuple(each))


def find_spaces(walk: Walk) -> Spaces:
    """The spaces of a traced network."""
    units = _units(walk)
    while True:
        named, slots, irregular = _arranged(walk, units)
        inputs = [own for own in named.values() if own[0].kind is SpaceKind.INPUT]
        if len(inputs) > 1:  # they can only go as one space
            irregular |= {unit.root for own in inputs for unit in own}
        moving = [unit for unit in units if unit.root in irregular and unit.kind.may_go]
        if not moving:
            break
        for unit in moving:
            unit.kind = SpaceKind.FIXED
            unit.reason = "its places in the weights follow no regular pattern"
    spaces = [
        Space(
            name,
            len(alike),
            alike[0].kind,
            folds=alike[0].folds,
            noun=alike[0].noun,
            reason=alike[0].reason,
        )
        for name, alike in named.items()
    ]
    silencers = _silencers(walk, slots)
    spaces = [replace(s, silencers=silencers.get(s.name, ())) for s in spaces]
    ordered = sorted(spaces, key=lambda space: _order(space, named[space.name]))
    owner = {
        unit.root: name
        for name, alike in named.items()
        for unit in alike
        if unit.kind.may_go and len(alike) > 1
    }
    # A space of one unit never loses it.
    ordered = [
        replace(s, kind=SpaceKind.FIXED, reason="it is the only one")
        if s.kind.may_go and s.size == 1
        else s
        for s in ordered
    ]
    return Spaces(tuple(ordered), tuple(slots), owner)


def _arranged(
    walk: Walk, units: Sequence[_Unit]
) -> tuple[dict[str, list[_Unit]], list[Slot], set[int]]:
    """Units by space, their slots, and those whose positions follow no pattern."""
    named: dict[str, list[_Unit]] = {}
    slots: list[Slot] = []
    irregular: set[int] = set()
    for alike in _alike(units):
        name = _name(walk, alike[0], set(named))
        own = _slots(walk, name, alike)
        if own is None:
            irregular |= {unit.root for unit in alike}
        elif own:
            named[name] = alike
            slots += own
    return named, slots, irregular


def _units(walk: Walk) -> list[_Unit]:
    """All units that stand in a parameter or buffer."""
    units: dict[int, _Unit] = {}
    for place, atoms in walk.dims().items():
        for position, root in enumerate(walk.atoms.roots(atoms).tolist()):
            own = units.setdefault(root, _Unit(root))
            own.places.setdefault(place, []).append(position)
    for number, value in values_of(walk):
        roots = thin(walk.atoms.roots(value.labels))
        for dim in range(roots.ndim):
            found, counts = owners(roots, dim).unique(return_counts=True)
            for root, count in zip(found.tolist(), counts.tolist(), strict=True):
                if root in units:
                    units[root].first = min(units[root].first, number)
                    units[root].appears.append((number, dim, count))
    _judge(walk, units)
    return list(units.values())


def _judge(walk: Walk, units: Mapping[int, _Unit]) -> None:
    """Which of them may go, and what people call them."""
    reasons, fed, summed = walk.atoms.reasons(), walk.atoms.fed(), walk.atoms.summed()
    outputs = _roots(walk, walk.output_labels)
    inputs = _roots(walk, walk.input_labels)
    flat = _has_flat_inputs(walk)
    heads = _roots(walk, [product.labels for product in walk.products])
    groups = _roots(walk, [grouped.rows for grouped in walk.grouped])
    for root, unit in units.items():
        roles = {role for place in unit.places for role in walk.roles.get(place, ())}
        made, read = Role.PRODUCER in roles, Role.CONSUMER in roles
        unit.reason = reasons.get(root, "")
        if root in outputs:
            unit.kind, unit.reason = SpaceKind.OUTPUT, "an output"
        elif root in inputs and (made or not flat):
            unit.reason = unit.reason or _INPUT
        elif root in inputs:
            unit.kind = SpaceKind.FIXED if unit.reason else SpaceKind.INPUT
        elif not unit.reason and made and read:
            unit.kind = SpaceKind.HIDDEN
        elif not unit.reason:
            unit.reason = "made, but read by no weight" if made else "read, but made by no weight"
        unit.folds = Folds.NONE if root in fed else Folds.ZERO if root in summed else Folds.ALL
        unit.noun = _noun(walk, unit, root in heads, root in groups)
    if inputs - {root for root, unit in units.items() if unit.kind is SpaceKind.INPUT}:
        for unit in units.values():
            if unit.kind is SpaceKind.INPUT:
                unit.kind, unit.reason = SpaceKind.FIXED, "other inputs have to stay"
    for unit in units.values():
        if not unit.kind.may_go:  # together, whatever else is known of them
            unit.folds, unit.appears = Folds.ALL, []


def _roots(walk: Walk, labels: Sequence[Tensor]) -> set[int]:
    found = {root for own in labels for root in present(walk.atoms.roots(own))}
    return found


def _has_flat_inputs(walk: Walk) -> bool:
    """Is there one input, of as many features as units, that is only ever flat?"""
    if len(walk.input_labels) != 1:
        return False
    (labels,) = walk.input_labels
    node = next(n for n in walk.captured.graph.nodes if n.name == walk.captured.inputs[0])
    flattened = all(
        operation_name(user) == "flatten" and user.args[1:] == (1,) for user in node.users
    )
    if labels.ndim < 2 or (labels.ndim > 2 and not flattened):
        return False
    roots = walk.atoms.roots(labels[0].flatten())
    return bool((roots != NONE).all()) and len(roots.unique()) == len(roots)


def _noun(walk: Walk, unit: _Unit, is_head: bool, is_group: bool) -> str:
    kinds = {use.kind for use in walk.uses if (use.makes.name, use.makes.dim) in unit.places}
    if is_head:
        return "heads"
    if is_group and any(len(own) > 1 for own in unit.places.values()):
        return "groups"
    if "convolution" in kinds or is_group:
        return "channels"
    if kinds & set(GATES):
        return "states"
    return "units" if kinds else "columns"


def _alike(units: Sequence[_Unit]) -> list[list[_Unit]]:
    """Units of one likeness, in the order of their first positions."""
    found: dict[tuple[object, ...], list[_Unit]] = {}
    for unit in units:
        found.setdefault(unit.likeness, []).append(unit)
    for alike in found.values():
        first = min(alike[0].places)
        alike.sort(key=lambda unit: min(unit.places[first]))
    return list(found.values())


def _name(walk: Walk, unit: _Unit, taken: set[str]) -> str:
    """A space by the module that makes it, or else by what reads it."""
    if unit.kind is SpaceKind.OUTPUT:
        name = "outputs"
    elif unit.kind is SpaceKind.INPUT or unit.reason == _INPUT:
        name = "inputs"
    else:
        makers = [place for place in unit.places if Role.PRODUCER in walk.roles.get(place, ())]
        name = _common([place[0] for place in makers or unit.places])
        if unit.noun == "heads":
            name = f"{name} heads".strip()
    own, number = name or "units", 2
    while own in taken:
        own, number = f"{name} ({number})", number + 1
    return own


def _common(parameters: Sequence[str]) -> str:
    """The module that parameters have in common; of a recurrent layer with its number.

    >>> _common(["attn.q.weight", "attn.k.weight"]), _common(["fc1.weight"])
    ('attn', 'fc1')
    >>> _common(["rnn.weight_ih_l1_reverse", "rnn.weight_hh_l1_reverse"])
    'rnn.l1_reverse'
    """
    paths = [name.split(".") for name in parameters]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    if len(paths) > 1 and all(len(path) == len(shared) + 1 for path in paths):
        ends = {path[-1].partition("_l")[2] for path in paths if "_l" in path[-1]}
        if len(ends) == 1 and all(path[-1].startswith(("weight_", "bias_")) for path in paths):
            return ".".join([*shared, f"l{ends.pop()}"])
    if not shared:
        return _common(parameters[:1])
    end = shared[-1].removesuffix("weight").removesuffix("bias").rstrip("_")
    return ".".join([*shared[:-1], end] if end else shared[:-1])


def _slots(walk: Walk, name: str, alike: Sequence[_Unit]) -> list[Slot] | None:
    """The slots of a space's units; `None` if their positions follow no regular pattern."""
    found: list[Slot] = []
    for place in alike[0].places:
        positions = torch.tensor([sorted(unit.places[place]) for unit in alike])
        for role in walk.roles.get(place, ()):
            own = fitted(*place, name, role, positions)
            if own is None:
                return None
            found += own
    return found


def fitted(tensor: str, dim: int, space: str, role: Role, positions: Tensor) -> list[Slot] | None:
    """Slots for a `(units, positions each)` table, or `None` if it follows no regular pattern.

    >>> [(s.tile, s.block, s.offset)
    ...  for s in fitted("w", 0, "u", Role.PRODUCER, torch.tensor([[0, 1, 4, 5], [2, 3, 6, 7]]))]
    [(2, 2, 0)]
    """
    size, width = positions.shape
    next_to = (positions[:, 1:] == positions[:, :-1] + 1).all(0)
    starts = [0, *(k + 1 for k in range(width - 1) if not next_to[k])]
    runs: list[tuple[int, int]] = []
    for start, end in zip(starts, [*starts[1:], width], strict=True):
        block, first = end - start, positions[:, start]
        if not torch.equal(first, first[0] + torch.arange(size) * block):
            return None
        runs.append((int(first[0]), block))
    slots: list[Slot] = []
    at = 0
    while at < len(runs):
        offset, block = runs[at]
        tile = 1
        while at + tile < len(runs) and runs[at + tile] == (offset + tile * size * block, block):
            tile += 1
        slots.append(Slot(tensor, dim, space, role, tile=tile, block=block, offset=offset))
        at += tile
    return slots


def _order(space: Space, alike: Sequence[_Unit]) -> tuple[int, int]:
    """Inputs first, outputs last, others as data flows."""
    kinds = {SpaceKind.INPUT: -1, SpaceKind.OUTPUT: 1}
    return kinds.get(space.kind, 0), min(unit.first for unit in alike)


def _silencers(walk: Walk, slots: Sequence[Slot]) -> dict[str, tuple[Slot, ...]]:
    """What keeps a recurrent unit at zero if it is zero: the rows that write its state, and all
    else that makes its value."""
    found: dict[str, dict[Slot, None]] = {}
    for use in walk.uses:
        if use.kind not in GATES:
            continue
        part = Part(_WRITING_GATE[use.kind], GATES[use.kind])
        state = next((s for s in slots if s.parameter == use.weight and s.dim == 0), None)
        if state is None:
            continue
        rows = [slot for slot in slots if slot.space == state.space and slot.dim == 0]
        own = [use.weight, *_biases(walk, use.node)]
        for slot in rows:
            if slot.parameter in own and slot.role is not Role.CONSUMER:
                silencer = replace(slot, tile=1, block=1, offset=0, part=part)
                found.setdefault(state.space, {})[silencer] = None
    result = {}
    for space, silencers in found.items():
        known = {slot.parameter for slot in silencers}
        others = [
            slot
            for slot in slots
            if slot.space == space
            and slot.parameter not in known
            and slot.role is not Role.CONSUMER
        ]
        result[space] = (*silencers, *others)
    return result


def _biases(walk: Walk, node: fx.Node) -> list[str]:
    """The biases of a recurrent layer."""
    parameters = node.args[2] if isinstance(node.args[2], list | tuple) else node.args[2:]
    values = [walk.values[own] for own in parameters if isinstance(own, fx.Node)]
    return [str(value.source) for value in values[2:]]
