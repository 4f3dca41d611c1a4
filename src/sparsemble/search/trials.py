"""The trials of a search, kept in its work folder so that a kill at any instant loses none.

    work/
      space-1a2b3c4d.json            what was asked for, and why what has no result has none
      space-1a2b3c4d-007.json        the result of trial 7
      space-1a2b3c4d-007-…/          its run, with the ensemble

The name is a digest of the search, so that searches can share a folder, and their chains.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sparsemble.results import Result
from sparsemble.search.jobs import Job
from sparsemble.search.space import SpaceSearch
from sparsemble.settings import Settings
from sparsemble.store import read_json, write_json


class Unfinished(Settings):
    """Why a trial has no result.

    Of one that was abandoned, also how far it was and how it did then.
    """

    kind: Literal["diverged", "abandoned", "refused"]
    reason: str
    share: float | None = None
    figure: float | None = None


@dataclass(frozen=True)
class Trial:
    """A point of the space, and what came of it: nothing yet, if it is waiting or under way."""

    number: int
    changes: dict[str, Any]
    end: Result | Unfinished | None = None

    @property
    def result(self) -> Result | None:
        """What it gave, if it was finished."""
        return self.end if isinstance(self.end, Result) else None


class _Asked(Settings):
    changes: dict[str, Any]
    unfinished: Unfinished | None = None


class _Notes(Settings):
    search: SpaceSearch
    trials: list[_Asked]


class Ledger:
    """All trials of a search; `trials` is what its file holds, and the results beside it."""

    def __init__(self, search: SpaceSearch, folder: Path) -> None:
        self._search = search
        self._folder = folder
        self._stem = f"space-{_digest(search)}"
        self._file = folder / f"{self._stem}.json"
        self.trials: list[Trial] = []
        if self._file.is_file():
            notes: _Notes = _Notes.read_back(read_json(self._file), self._file)
            self.trials = [
                Trial(number, asked.changes, asked.unfinished)
                for number, asked in enumerate(notes.trials)
            ]

    @property
    def waiting(self) -> list[Trial]:
        """Those that have no end."""
        return [trial for trial in self.trials if trial.end is None]

    def add(self, points: Iterable[dict[str, Any]]) -> None:
        """Keep which points are tried next, all of them at one instant."""
        first = len(self.trials)
        self.trials += [Trial(first + k, changes) for k, changes in enumerate(points)]
        self._write()

    def end(self, trial: Trial, end: Result | Unfinished) -> Trial:
        """Keep what came of a trial; a result has a file of its own."""
        ended = self.trials[trial.number] = replace(trial, end=end)
        if isinstance(end, Unfinished):
            self._write()
        return ended

    def job(self, trial: Trial) -> Job:
        """What is to be run; a point that was tried before has the same job again."""
        first = next(own for own in self.trials if own.changes == trial.changes)
        recipe = self._search.base(trial.changes | self._search.measured_on_validation())
        return Job(recipe, self._folder / f"{self._stem}-{first.number:03d}.json")

    def _write(self) -> None:
        asked = [
            _Asked(
                changes=trial.changes,
                unfinished=trial.end if isinstance(trial.end, Unfinished) else None,
            )
            for trial in self.trials
        ]
        notes = _Notes(search=self._search, trials=asked)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file, notes.model_dump(mode="json"))


def finished(trials: Sequence[Trial]) -> list[tuple[Trial, Result]]:
    """Trials with their results."""
    return [(trial, trial.result) for trial in trials if trial.result is not None]


def _digest(search: SpaceSearch) -> str:
    """A name for what the points follow from; there may be more of them later."""
    fields = search.model_dump(mode="json", exclude={"trials", "dense"})
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:8]
