"""Which conditions on lengths matter: found by trying lengths that break them.

`torch.export` notes every question that is asked of a length, also those whose answer changes
nothing but how numbers lie in memory: a network that was traced with seven words, and can read
nine, might be refused nine. Where program and network agree although a condition is broken, and
nowhere differ, it is let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from sparsemble.errors import InputError
from sparsemble.programs import Blueprint, Program
from sparsemble.programs.lengths import Expression, holds, numbers
from sparsemble.tracing.checking import difference, evaluating, precision

_TRIALS = 16
"""Other lengths that are tried at most,"""
_ENOUGH = 2
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
    dtype, tolerated = precision(network)
    free = _under(program, ())
    agreed: Counter[Expression] = Counter()
    needed: set[Expression] = set()
    for lengths, broken in islice(_trials(blueprint, agreed), _TRIALS):
        made = iter(blueprint.made_up(dtype=dtype, lengths=lengths))
        given = [None if leaf is None else next(made) for leaf in leaves]
        positional, by_name = pytree.tree_unflatten(given, spec)
        with torch.no_grad(), evaluating(network), evaluating(free):
            try:
                expected = network(*positional, **by_name)
            except Exception:
                continue
            try:
                agree = difference(expected, free(*positional, **by_name)) <= tolerated
            except (RuntimeError, IndexError, InputError):
                agree = False
        if agree:
            agreed.update(broken)
        else:
            needed.update(broken)
    kept = [own for own in blueprint.conditions if own in needed or not agreed[own]]
    return _under(program, kept)


def _under(program: Program, conditions: Sequence[Expression]) -> Program:
    blueprint = replace(program.blueprint_, conditions=tuple(conditions))
    tensors = {**dict(program.named_parameters()), **dict(program.named_buffers())}
    return Program(blueprint, tensors, program.sizes_)


def _trials(
    blueprint: Blueprint, agreed: Mapping[Expression, int]
) -> Iterator[tuple[dict[str, int], list[Expression]]]:
    """Lengths that break conditions of which too little is known yet, and these conditions."""
    traced = blueprint.lengths
    written = {n for condition in blueprint.conditions for n in numbers(condition)}
    for name, length in traced.items():
        tried = {*range(1, 2 * length + 3), *written, *(n + 1 for n in written)}
        furthest = 4 * max(traced.values())
        for other in sorted(tried, key=lambda n: abs(n - length)):
            if not 1 <= other <= furthest:
                continue
            lengths = traced | {name: other}
            broken = [own for own in blueprint.conditions if not holds(own, lengths)]
            if any(agreed.get(own, 0) < _ENOUGH for own in broken):
                yield lengths, broken
