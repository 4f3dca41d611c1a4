"""Which conditions on lengths matter: found by trying lengths that break them.

`torch.export` notes every question that is asked of a length, also those whose answer changes
nothing but how numbers lie in memory: a network that was traced with seven words, and can read
nine, might be refused nine. Where program and network agree although a condition is broken, and
nowhere differ, it is let go.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from sparsemble.programs import Blueprint, Program
from sparsemble.programs.lengths import Expression, holds, numbers
from sparsemble.programs.tensors import tensors_of
from sparsemble.streams import borrowed_streams
from sparsemble.tracing.checking import as_traced, difference, is_number, precision

_TRIALS = 24
"""Other lengths that are tried at most,"""
_ENOUGH = 3
"""and how often for one condition."""


def relaxed(
    program: Program, network: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> Program:
    """The program without the conditions that do not matter.

    Args:
        program: As traced.
        network: What it was traced of.
        inputs: What that was called with,
        named: and by name.
    """
    blueprint = program.blueprint_
    if not blueprint.conditions:
        return program
    leaves, spec = pytree.tree_flatten((inputs, dict(named)))
    pair = _Pair(program, network)
    agreed: Counter[Expression] = Counter()
    needed: set[Expression] = set()
    for lengths, broken in islice(_trials(blueprint, agreed), _TRIALS):
        made = iter(blueprint.made_up(dtype=precision(network)[0], lengths=lengths))
        given = [None if leaf is None else next(made) for leaf in leaves]
        agree = pair.agree(*pytree.tree_unflatten(given, spec))
        if agree:
            agreed.update(broken)
        elif agree is not None:
            needed.update(broken)
    kept = [own for own in blueprint.conditions if own in needed or not agreed[own]]
    return Program(_under(blueprint, kept), tensors_of(program), program.sizes_)


class _Pair:
    """A network and its program without conditions, with other weights.

    With those it begins with a network may not show all that it does: branches begin at zero.
    """

    def __init__(self, program: Program, network: nn.Module) -> None:
        self._tolerated = precision(network)[1]
        self._network = copy.deepcopy(network)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self._network.parameters():
                if parameter.is_floating_point():
                    parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        known = tensors_of(self._network)
        tensors = {name: known.get(name, own) for name, own in tensors_of(program).items()}
        copied = {name: own.detach().clone() for name, own in tensors.items()}
        self._program = Program(_under(program.blueprint_, ()), copied, program.sizes_)

    def agree(self, positional: Sequence[Any], named: Mapping[str, Any]) -> bool | None:
        """Do they compute the same, in evaluation and in training? `None` if the network cannot."""
        return self._agree_in(False, positional, named) and self._agree_in(True, positional, named)

    def _agree_in(
        self, training: bool, positional: Sequence[Any], named: Mapping[str, Any]
    ) -> bool | None:
        found = []
        for module in (self._network, self._program):
            with torch.no_grad(), borrowed_streams(0), as_traced(module, training=training):
                try:
                    found.append(module(*positional, **named))
                except Exception:  # whatever the network's author raises
                    return None if module is self._network else False
        if not is_number(found[0]):
            return None
        return difference(*found) <= self._tolerated


def _under(blueprint: Blueprint, conditions: Sequence[Expression]) -> Blueprint:
    return replace(blueprint, conditions=tuple(conditions))


def _trials(
    blueprint: Blueprint, agreed: Mapping[Expression, int]
) -> Iterator[tuple[dict[str, int], list[Expression]]]:
    """Lengths that break conditions of which too little is known yet, and these conditions."""
    traced = blueprint.lengths
    written = {n for condition in blueprint.conditions for n in numbers(condition)}
    furthest = 4 * max(traced.values())
    for name, length in traced.items():
        tried = {*range(1, 2 * length + 3), *written, *(n + 1 for n in written), furthest}
        near = sorted((n for n in tried if 1 <= n <= furthest), key=lambda n: abs(n - length))
        # From both ends: what holds nearby need not hold far away.
        for other in chain.from_iterable(zip(near, reversed(near), strict=True)):
            lengths = traced | {name: other}
            broken = [own for own in blueprint.conditions if not holds(own, lengths)]
            if any(agreed.get(own, 0) < _ENOUGH for own in broken):
                yield lengths, broken
