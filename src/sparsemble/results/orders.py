"""Whole runs as jobs of an engine: a recipe and a folder go in, the folder is all that comes out.

Runs that share samples are one job, done one after the other. Whatever machine a run is made on,
it loads its data there.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sparsemble.devices import Manner
from sparsemble.engines import Engine, Line
from sparsemble.engines.places import Files, Place, files_in, marked, worked_in, write_files
from sparsemble.engines.telling import Telling
from sparsemble.errors import DivergedError
from sparsemble.processes.interrupts import Stop, asked_by
from sparsemble.recipes import Recipe
from sparsemble.results.result import Result
from sparsemble.results.running import run_recipe

Made = Result | DivergedError | None
"""What came of a run; nothing if it was asked to stop, and has saved."""


@dataclass(frozen=True)
class Order:
    """A run to be made, in a folder inside the place; its samples may be shared."""

    recipe: Recipe
    folder: str
    samples: str | None = None


@dataclass(frozen=True)
class _Shared:
    place: Place
    data_folder: Path | None
    device: str
    manner: Manner


def make_runs(
    batches: Sequence[Sequence[Order]],
    folder: Path,
    engine: Engine,
    *,
    stop: Stop,
    hear: Callable[[Order, tuple[object, ...]], bool | None],
    data_folder: Path | None = None,
    device: str = "cpu",
    threads: int = 1,
) -> Generator[tuple[int, list[Made]]]:
    """Make the runs of every batch one after the other, and batches side by side.

    The number of a batch and what came of its runs are given as each is done.

    Args:
        batches: What to run.
        folder: That the folders of runs are in.
        engine: Where.
        stop: Asks to stop.
        hear: Told what happens in a run, by the name and arguments of what a callback is told; to
            say yes asks the run's batch to stop.
        data_folder: Where data sets lie, if not where they do by default.
        device: That every run computes on, in its process.
        threads: That new runs compute with.
    """
    with marked(folder) as place:
        running = engine.run(
            _make,
            _Shared(
                place,
                None if data_folder is None else data_folder.absolute(),
                device,
                Manner.here(threads),
            ),
            [
                (list(batch), {} if engine.is_here else files_in(place.folder, _patterns(batch)))
                for batch in batches
            ],
            hear=lambda number, told: hear(batches[number][told[0]], told[1]),
            stop=stop,
        )
        with closing(running) as jobs:
            for number, (made, files) in jobs:
                write_files(place.folder, files)
                yield number, made


def _patterns(batch: Sequence[Order]) -> list[str]:
    folders = {name for order in batch for name in (order.folder, order.samples)}
    return [f"{glob.escape(name)}/**/*" for name in sorted(filter(None, folders))]


def _make(shared: _Shared, task: tuple[list[Order], Files], line: Line) -> tuple[list[Made], Files]:
    """Make the runs of a batch, in any process; what came of them, and unseen files."""
    batch, sent = task
    with shared.manner.kept(), worked_in(shared.place, sent) as worked:
        made = [
            _made(order, worked.folder, shared, _Numbered(line, number))
            for number, order in enumerate(batch)
        ]
        return made, worked.results()


def _made(order: Order, folder: Path, shared: _Shared, line: Line) -> Made:
    if line.stop_requested:
        return None
    try:
        with asked_by(line):
            return run_recipe(
                order.recipe,
                folder / order.folder,
                samples_folder=None if order.samples is None else folder / order.samples,
                data_folder=shared.data_folder,
                device=shared.device,
                callback=Telling(line),
            )
    except DivergedError as error:
        return error
    except KeyboardInterrupt:
        return None


@dataclass(frozen=True)
class _Numbered:
    """A line that says which run of a batch it is about."""

    line: Line
    number: int

    def tell(self, what: object) -> None:
        self.line.tell((self.number, what))

    @property
    def stop_requested(self) -> bool:
        return self.line.stop_requested
