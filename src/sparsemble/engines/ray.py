"""Jobs on a Ray cluster: the one that this machine belongs to, or one of its own.

What is common goes into Ray's store once. A job whose process is killed is run again by Ray.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sparsemble.engines.engine import Asking, Batch, Engine, interrupts_told
from sparsemble.engines.sending import unpacked
from sparsemble.engines.versions import check_versions, versions
from sparsemble.errors import InputError, SparsembleError

_LOOK_EVERY = 0.2
_PATIENCE = 60.0
"""Seconds that jobs get to save when they are to stop."""
_DEATHS = 10
"""How often a job may lose its process before it is given up."""


class Ray(Engine):
    """A Ray cluster.

    Args:
        address: Of the cluster; without one it is the one that runs here, or else is started.
        processors: How many the latter uses; by default all.
    """

    def __init__(self, address: str | None = None, processors: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise InputError("Ray is not installed: pip install 'sparsemble[ray]'") from None
        self._ray: Any = ray
        self._is_ours = not ray.is_initialized()
        if not self._is_ours:
            return
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        where: dict[str, Any] = {"address": address}
        if address is None and processors is not None:
            where = {"address": "local", "num_cpus": processors}
        try:
            self._ray.init(**where, include_dashboard=False, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"no Ray cluster answers at {address} ({_first_line(error)}): is it "
                "running, and the address right? `ray start --head` prints it"
            ) from None

    @property
    def size(self) -> int:
        """Its processors."""
        return max(int(self._ray.cluster_resources().get("CPU", 1)), 1)

    def begun(self, shared: bytes, tasks: Sequence[Any]) -> _Batch:
        """Jobs that Ray hands out."""
        return _Batch(self._ray, shared, tasks)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._is_ours:
            self._ray.shutdown()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


class _Batch(Batch):
    """Jobs on a cluster."""

    def __init__(self, ray: Any, shared: bytes, tasks: Sequence[Any]) -> None:
        self._ray = ray
        self._board = ray.remote(num_cpus=0)(_Board).remote()
        job = ray.remote(max_retries=_DEATHS, num_cpus=1)(_do)
        kept = ray.put(shared)
        self._jobs: dict[Any, int] = {
            job.remote(kept, task, (self._board, number, versions())): number
            for number, task in enumerate(tasks)
        }

    @property
    def is_left(self) -> bool:
        """Is any job under way?"""
        return bool(self._jobs)

    def heard(self) -> Iterator[tuple[int, Any]]:
        """What was left on the board."""
        with suppress(self._ray.exceptions.RayError):  # the display is no reason to lose a job
            yield from self._ray.get(self._board.take.remote(), timeout=_PATIENCE)

    def done(self) -> Iterator[tuple[int, Any]]:
        """What came of those that have ended."""
        ended, _ = self._ray.wait(list(self._jobs), num_returns=1, timeout=_LOOK_EVERY)
        for job in ended:
            yield self._jobs.pop(job), self._result(job)

    def _result(self, job: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(job)
        except errors.RayTaskError as error:
            raise error.cause if error.cause is not None else error from None
        except errors.RayError as error:
            raise SparsembleError(
                f"a job was lost ({_first_line(error)}); what was finished is in the run's "
                "folder, and the same command again goes on"
            ) from None

    def ask_to_stop(self, number: int) -> None:
        """By word on the board."""
        self._board.stop.remote([number])

    def __exit__(self, *exception: object) -> None:
        """Let jobs under way save and end."""
        ray = self._ray
        with suppress(ray.exceptions.RayError):
            if self._jobs:
                ray.get(self._board.stop.remote(list(self._jobs.values())), timeout=_PATIENCE)
                _, left = ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=_PATIENCE)
                for job in left:  # only these: to cancel one that has just ended crashes Ray
                    ray.cancel(job, force=True)
        ray.kill(self._board)


class _Board:
    """Where jobs leave word, and find it."""

    def __init__(self) -> None:
        self._told: list[tuple[int, Any]] = []
        self._stopped: set[int] = set()

    def tell(self, number: int, what: Any) -> None:
        """Leave word."""
        self._told.append((number, what))

    def take(self) -> list[tuple[int, Any]]:
        """What was left since."""
        told, self._told = self._told, []
        return told

    def stop(self, numbers: list[int]) -> None:
        """Ask some to stop."""
        self._stopped.update(numbers)

    def is_stopped(self, number: int) -> bool:
        """Was that asked?"""
        return number in self._stopped


class _ToDriver(Asking):
    """The line from a job to whoever asked for it."""

    def __init__(self, board: Any, number: int) -> None:
        super().__init__()
        self._board, self._number = board, number

    def tell(self, what: Any) -> None:
        self._board.tell.remote(self._number, what)

    def _ask(self) -> bool:
        import ray

        with suppress(ray.exceptions.RayError):  # without the board nobody asks any more
            return bool(ray.get(self._board.is_stopped.remote(self._number)))
        return False


def _do(shared: bytes, task: Any, asked: tuple[Any, int, dict[str, str]]) -> Any:
    """A job, in a process of Ray's."""
    board, number, wanted = asked
    check_versions(wanted, "a worker of the Ray cluster")
    work, common = unpacked(shared)
    with interrupts_told():
        return work(common, task, _ToDriver(board, number))
