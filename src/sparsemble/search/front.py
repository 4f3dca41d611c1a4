"""What a search of a space found: all trials, and the front of those that no other beats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsemble.errors import DivergedError
from sparsemble.results import Result
from sparsemble.results.tables import Table
from sparsemble.search.jobs import Workplace, saved_ensemble
from sparsemble.search.objectives import loss_of, on_front, value_of
from sparsemble.search.search import entry, points_table
from sparsemble.search.space import SpaceSearch
from sparsemble.search.trials import Ledger, Trial, Unfinished, finished
from sparsemble.store import write_json

_SHOWN = 10
"""Trials in the table of one objective."""


@dataclass(frozen=True)
class Found:
    """Trials as far as they have ended, and a dense network's result if one was trained."""

    search: SpaceSearch
    trials: tuple[Trial, ...]
    dense: Result | None = None

    @property
    def points(self) -> list[tuple[Trial, Result, bool]]:
        """Finished trials, best first, and whether each is on the front."""
        found = sorted(finished(self.trials), key=lambda pair: loss_of(pair[1]))
        values = [
            [value_of(name, result) for name in self.search.objectives] for _, result in found
        ]
        return [(*pair, front) for pair, front in zip(found, on_front(values), strict=True)]

    @property
    def front(self) -> list[tuple[Trial, Result]]:
        """The finished trials that no other beats, best first."""
        if not self.points:
            raise DivergedError("no trial of the search was finished: narrow its ranges")
        return [(trial, result) for trial, result, front in self.points if front]

    def unfinished(self, kind: str) -> list[dict[str, Any]]:
        """The points of trials that ended without a result, by why they did."""
        return [
            trial.changes
            for trial in self.trials
            if isinstance(trial.end, Unfinished) and trial.end.kind == kind
        ]


def write_found(found: Found, place: Workplace, path: Path) -> None:
    """One result file for the whole search, best trial first, like that of a grid."""
    search, ledger = found.search, Ledger(found.search, place.folder)
    write_json(
        path,
        {
            "search": search.model_dump(mode="json"),
            "recipe": search.base().model_dump(mode="json"),
            "provenance": found.front[0][1].provenance,
            "points": [
                {
                    "trial": trial.number,
                    "front": front,
                    **entry(trial.changes, result),
                    "ensemble": str(saved_ensemble(ledger.job(trial), place)),
                }
                for trial, result, front in found.points
            ],
            "dense": None if found.dense is None else entry({}, found.dense),
            **{kind: found.unfinished(kind) for kind in ("diverged", "abandoned", "refused")},
        },
    )


def front_table(found: Found) -> Table:
    """The front, best first; of one objective, the best trials."""
    if found.search.costs:
        return _table(found, "The front", found.front)
    return _table(found, "The best trials", _rows(found)[:_SHOWN])


def trials_table(found: Found) -> Table:
    """All finished trials, best first."""
    return _table(found, "All finished trials", _rows(found))


def _rows(found: Found) -> list[tuple[Trial, Result]]:
    return [(trial, result) for trial, result, _ in found.points]


def _table(found: Found, title: str, rows: list[tuple[Trial, Result]]) -> Table:
    named = [({"Trial": trial.number, **trial.changes}, result) for trial, result in rows]
    return points_table(f"{title}, on validation data", ["Trial", *found.search.varied], named)
