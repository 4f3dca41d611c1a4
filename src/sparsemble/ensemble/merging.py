"""Merging: the members of several ensembles as one, if they predict the same thing.

They must have one task, down to the scaling of inputs and the order of classes, and be pruned from
networks of one kind: a cost is a share of one dense network. What differs is said by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparsemble.ensemble.ensemble import Ensemble, kind_of
from sparsemble.ensemble.saving import program_of
from sparsemble.errors import InputError
from sparsemble.tasks import Task

_SHOWN = 80
"""Letters of a value at most."""


def merged(ensembles: Sequence[Ensemble], names: Sequence[str] = ()) -> Ensemble:
    """All members, in the order of the ensembles; one that is there twice counts twice.

    Args:
        ensembles: What is merged.
        names: What errors call them.
    """
    if not ensembles:
        raise InputError("there is nothing to merge: give ensembles")
    names = names or [f"ensemble {number}" for number in range(len(ensembles))]
    first = ensembles[0]
    for name, other in zip(names[1:], ensembles[1:], strict=True):
        for what, own, theirs in (*_tasks(first, other), *_networks(first, other)):
            raise InputError(
                f"{name} cannot be merged with {names[0]}: they differ in {what}, "
                f"{_short(theirs)} and {_short(own)}"
            )
    return Ensemble([member for ensemble in ensembles for member in ensemble], first.task)


def _tasks(first: Ensemble, other: Ensemble) -> Iterator[tuple[str, Any, Any]]:
    """What makes their predictions different things."""
    own, theirs = first.task, other.task
    if type(own) is not type(theirs):
        yield "the task", type(own).__name__, type(theirs).__name__
        return
    known, found = own.model_dump(), theirs.model_dump()
    for name in {**known, **found}:
        if known.get(name) != found.get(name):
            yield f"the {name.replace('_', ' ')}", known.get(name), found.get(name)
    yield from _scalings(own, theirs)


def _scalings(own: Task, theirs: Task) -> Iterator[tuple[str, Any, Any]]:
    for name, scaling in own.scalings.items():
        other = theirs.scalings[name]
        if not scaling.same_as(other):
            yield (
                f"the scaling of {name}",
                f"by {scaling.factor.flatten()[:3].tolist()}",
                f"by {other.factor.flatten()[:3].tolist()}",
            )


def _networks(first: Ensemble, other: Ensemble) -> Iterator[tuple[str, Any, Any]]:
    """What makes them be pruned from different networks."""
    known, found = kind_of(first[0]), kind_of(other[0])
    for what in known:
        if known[what] != found[what]:
            yield f"the networks' {what}", known[what], found[what]
    if program_of(first[0]) != program_of(other[0]):
        yield "what the networks compute", "one program", "another"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
