"""Answers for programs and for people, made of the members' evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.tasks import Task
from sparsemble.tasks.views import Bar, View

MOST_SHOWN = 24
"""Members whose own predictions a page shows."""
MOST_RECORDS = 10_000
"""Of members, in one answer."""


def predictions(task: Task, evidence: Tensor, *, members: bool) -> dict[str, Any]:
    """One record per row.

    Args:
        task: Says what is in it.
        evidence: Of every member, `(members, rows, …)`.
        members: Also every member's own record, and how far they agree?
    """
    records = task.rows(evidence)
    if members:
        _check_size(*evidence.shape[:2])
        each = [task.rows(own) for own in evidence.split(1)]
        for place, agreement in enumerate(task.agreement(evidence)):
            records[place]["members"] = [own[place] for own in each]
            records[place]["agreement"] = agreement
    return {"predictions": records}


def _check_size(members: int, rows: int) -> None:
    if members * rows > MOST_RECORDS:
        raise InputError(
            f"what {members} members say of {rows} rows is too much for one answer: ask for at "
            f"most {MOST_RECORDS // members} rows with members"
        )


def shown(task: Task, evidence: Tensor) -> dict[str, Any]:
    """The prediction for one row as a page shows it: together, by each member, and in words."""
    together = task.views(evidence)[0]
    members = [task.views(own)[0] for own in evidence[:MOST_SHOWN].split(1)]
    ends = _ends([together, *members])
    return {
        "together": _drawn(together, ends),
        "members": [_drawn(own, ends) for own in members],
        "more": max(len(evidence) - MOST_SHOWN, 0),
        "agreement": task.agreement(evidence)[0],
    }


def _ends(views: Sequence[View]) -> dict[str, tuple[float, float]]:
    """The scale of the bars of each label, where they have none of their own."""
    found: dict[str, tuple[float, float]] = {}
    for bar in (bar for view in views for bar in view.bars if bar.ends is None):
        low, high = found.get(bar.label, (bar.low, bar.high))
        found[bar.label] = (min(low, bar.low), max(high, bar.high))
    return found


def _drawn(view: View, ends: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    bars = [_shares(bar, *(bar.ends or ends[bar.label])) for bar in view.bars]
    return {**asdict(view), "bars": bars}


def _shares(bar: Bar, low: float, high: float) -> dict[str, Any]:
    """A bar whose places are shares of its scale."""
    width = (high - low) or 1.0
    places = {"low": bar.low, "high": bar.high, "middle": bar.middle}
    found = {key: None if own is None else (own - low) / width for key, own in places.items()}
    return {"label": bar.label, "text": bar.text, **found}
