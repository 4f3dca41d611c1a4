"""The parts of a stage, brought to their ends: here one after the other, or on an engine.

On an engine any process works on any part, in the part's folder; what it leaves there is what it
would have left here, and is then read as after an interruption.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

from sparsemble.engines import Engine
from sparsemble.engines.places import remove_marks
from sparsemble.learning.monitor import Monitor
from sparsemble.learning.part_work import PartWork
from sparsemble.learning.remote_parts import finish_parts
from sparsemble.processes.interrupts import Stop
from sparsemble.runs.checkpointing import Checkpointing
from sparsemble.runs.stage_folder import StageFolder
from sparsemble.stages import Callback, Callbacks, History, Sample
from sparsemble.team import Team, agreed


@dataclass
class Parts:
    """A stage on its way; `history` grows with it.

    Args:
        work: What is done.
        folder: Where it is kept.
        monitor: Measures what comes out.
        callback: Told what happens.
        stop: Asks to stop.
        engine: Where parts are worked on, if not here.
        team: The processes that work on every part together; only the first has a folder.
    """

    work: PartWork
    folder: StageFolder | None
    monitor: Monitor
    callback: Callback
    stop: Stop
    engine: Engine | None = None
    team: Team | None = None
    history: History = field(default_factory=History)

    def finish(self) -> list[Sample]:
        """What all parts give, in order."""
        if self.folder is not None:
            remove_marks(self.folder.path)
        if self.engine is not None and self.folder is not None:
            finish_parts(self.work, self.folder, self.engine, self.callback, self.stop)
        samples = []
        for number in range(self.work.parts):
            folder = None if self.folder is None else self.folder.part(number)
            keeping = Checkpointing(folder, self.stop)
            callbacks = Callbacks(keeping, self.monitor, self.callback)
            with nullcontext() if folder is None else folder.alone(self.stop):
                state, known = agreed(keeping.resume(), self.team)
                samples += self.work.run(number, callbacks, known, state)
            self.history += keeping.history
        self.history += History(samples=self.monitor.records)
        return samples
