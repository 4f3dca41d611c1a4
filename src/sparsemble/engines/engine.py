"""What every engine does: the same work on many tasks, side by side, each result as it comes.

A job is `work(common, task, line)`: a function of some module, what all jobs share (sent once to
wherever they run), what this one is about, and a line to whoever asked for it. Jobs know nothing of
each other, so a job whose process is killed is simply run again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeVar

from sparsemble.engines.sending import packed
from sparsemble.errors import SparsembleError
from sparsemble.processes.interrupts import Stop

_ASK_EVERY = 1.0
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")


class Line(Stop, Protocol):
    """Joins a job with whoever asked for it."""

    def tell(self, what: Any) -> None:
        """Send something plain; what nobody has time to hear may get lost."""
        ...


class Asking(ABC):
    """A line over which a job asks now and then whether to stop, which takes a moment."""

    def __init__(self) -> None:
        self._asked = time.monotonic()
        self._requested = False

    @abstractmethod
    def _ask(self) -> bool:
        """Is it to stop?"""

    @property
    def stop_requested(self) -> bool:
        """Was it asked to stop, as far as is known?"""
        if not self._requested and time.monotonic() - self._asked > _ASK_EVERY:
            self._asked = time.monotonic()
            self._requested = self._ask()
        return self._requested


Work = Callable[[C, T, Line], R]
Hear = Callable[[int, Any], bool | None]
"""Called with the number of a task, and what its job told; to say yes asks the job to stop."""


class Batch(ABC):
    """Jobs on their way; whatever ends the block that they are in, they save and end."""

    @property
    @abstractmethod
    def is_left(self) -> bool:
        """Is any job waiting or under way?"""

    @abstractmethod
    def heard(self) -> Iterator[tuple[int, Any]]:
        """What jobs have told since, each with the number of its task."""

    @abstractmethod
    def done(self) -> Iterator[tuple[int, Any]]:
        """The results of jobs that have ended since, waiting a moment for one.

        What a job raised is raised.
        """

    @abstractmethod
    def ask_to_stop(self, number: int) -> None:
        """Let a job save and end."""

    def __enter__(self) -> Batch:
        return self

    @abstractmethod
    def __exit__(self, *exception: object) -> None:
        """Let all of them save and end."""


class Engine(ABC):
    """Somewhere to run jobs."""

    is_here: ClassVar[bool] = False
    """Do all jobs see the folders of whoever asks?"""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many it runs at a time."""

    def run(
        self,
        work: Work[C, T, R],
        common: C,
        tasks: Sequence[T],
        *,
        hear: Hear,
        stop: Stop,
    ) -> Generator[tuple[int, R]]:
        """Do the work on every task; give the numbers and results of jobs as each is done.

        What a job raises is raised here, once the others have saved and ended. So is
        `KeyboardInterrupt` if `stop` asks for it.

        Args:
            work: A function of a module, so that other processes find it.
            common: What all jobs share.
            tasks: What each is about.
            hear: Told what jobs tell.
            stop: Asks all of them to save and to end.
        """
        with self.begun(packed((work, common)), tasks) as batch:
            while batch.is_left:
                for number, what in batch.heard():
                    if hear(number, what):
                        batch.ask_to_stop(number)
                yield from batch.done()
                if stop.stop_requested:
                    raise KeyboardInterrupt

    @abstractmethod
    def begun(self, shared: bytes, tasks: Sequence[Any]) -> Batch:
        """Jobs on those tasks; packed are the work and what is common."""

    @abstractmethod
    def close(self) -> None:
        """Let go of processes and connections."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@contextmanager
def interrupts_told() -> Iterator[None]:
    """Let a job that was asked to stop raise an error like others: a cluster's process goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise SparsembleError("a job was asked to stop") from None
