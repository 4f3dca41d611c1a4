"""The parts of a stage as jobs of an engine."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from sparsemble.devices import Manner
from sparsemble.engines import Engine, Line
from sparsemble.engines.places import Files, Place, files_in, marked, worked_in, write_files
from sparsemble.engines.telling import Telling, told_on
from sparsemble.learning.part_work import PartWork
from sparsemble.processes.interrupts import Stop
from sparsemble.runs import PartFolder, StageFolder
from sparsemble.runs.checkpointing import Checkpointing
from sparsemble.stages import Callback, Callbacks, Sample


@dataclass(frozen=True)
class _Shared:
    """What the jobs of a stage have in common."""

    work: PartWork
    place: Place
    manner: Manner


def finish_parts(
    work: PartWork, folder: StageFolder, engine: Engine, callback: Callback, stop: Stop
) -> None:
    """Bring all parts to their ends; what they leave is in their folders.

    Args:
        work: What is done.
        folder: Of the stage.
        engine: Where.
        callback: Told what happens.
        stop: Asks to stop.
    """
    left = [n for n in range(work.parts) if not work.is_done(_known(folder.part(n)))]
    if not left:
        return
    with marked(folder.path) as place:
        names = {n: () if engine.is_here else ("stage.json", f"{n:04d}/*") for n in left}
        tasks = [(n, files_in(place.folder, names[n])) for n in left]
        running = engine.run(
            _finish_part,
            _Shared(work, place, Manner.here()),
            tasks,
            hear=lambda _, what: told_on(callback, what),
            stop=stop,
        )
        with closing(running) as jobs:
            for _, files in jobs:
                write_files(place.folder, files)


def _known(part: PartFolder) -> list[Sample]:
    return part.samples(part.checkpoint())


def _finish_part(shared: _Shared, task: tuple[int, Files], line: Line) -> Files:
    """Bring a part to its end, in any process; the files that the asker does not see."""
    number, sent = task
    with shared.manner.kept(), worked_in(shared.place, sent) as worked:
        part = StageFolder(worked.folder).part(number)
        with part.alone(line):
            keeping = Checkpointing(part, line)
            state, known = keeping.resume()
            shared.work.run(number, Callbacks(keeping, Telling(line)), known, state)
        return worked.results()
