"""Jobs on a Dask cluster: one that runs somewhere, or one of this machine.

What is common is kept by the scheduler, and goes to every worker once. A job whose worker is killed
is run again; if the scheduler is lost, everything that had landed in the run's folder is still
there.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from sparsemble.engines.engine import Asking, Batch, Engine, Work, interrupts_told
from sparsemble.engines.sending import packed, unpacked
from sparsemble.engines.versions import check_versions, versions
from sparsemble.errors import InputError, SparsembleError

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as AnyFuture

    Future = AnyFuture[Any]

_PATIENCE = 10.0
"""Seconds until a scheduler that does not answer is not there."""
_SAVING = 60.0
"""Seconds that jobs get to save when they are to stop."""
_SOON = 5.0
_DESERTED = 60.0
"""Seconds without any worker until nobody is waited for."""
_LOOK_EVERY = 0.2
_DEATHS = 3
"""How often Dask may give a job up, after several workers each, before it is given up here."""


class Dask(Engine):
    """A Dask cluster.

    Args:
        address: Of its scheduler; without one a cluster is started here.
        workers: How many the latter has; by default as many as there are processors.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise InputError("Dask is not installed: pip install 'sparsemble[dask]'") from None
        self._opened = ExitStack()
        if address is None:
            # Dask does without workers that are not back by then: on a busy machine it takes long.
            patience = dask.config.set({"distributed.deploy.lost-worker-timeout": f"{_DESERTED} s"})
            self._opened.enter_context(patience)
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address=None,
                silence_logs=logging.ERROR,
            )
            self._opened.enter_context(cluster)
            self._client: Client = Client(cluster, set_as_default=False)
            return
        _check_answers(address)
        try:
            self._client = Client(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(_silent(address, str(error).partition("\n")[0])) from None

    @property
    def size(self) -> int:
        """Its workers."""
        return max(len(self._client.scheduler_info(n_workers=-1)["workers"]), 1)

    def begun(self, shared: bytes, tasks: Sequence[Any]) -> _Batch:
        """Jobs that the scheduler hands out."""
        return _Batch(self._client, shared, tasks)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._client.close()
        self._opened.close()


@contextmanager
def _losses_told() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # of a connection, or of its making
        raise SparsembleError(f"{_LOST} ({str(error).partition(chr(10))[0]})") from None


def _check_answers(address: str) -> None:
    """Is there a scheduler at all? A Dask client would wait for long, and complain at its end."""
    try:
        where = urlsplit(address)
        host, port = where.hostname, where.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InputError(f"on = {address!r}: write a scheduler's address, as tcp://host:8786")
    try:
        with socket.create_connection((host, port), timeout=_PATIENCE) as plain:
            plain.settimeout(_PATIENCE)
            if where.scheme == "tcp" and not plain.recv(1):  # which speaks first
                raise OSError("it hangs up")
    except OSError as error:
        raise InputError(_silent(address, str(error))) from None


def _silent(address: str, why: str) -> str:
    return (
        f"no Dask scheduler answers at {address} ({why}): is it running, and the address right? "
        "`dask scheduler` prints it"
    )


_LOST = (
    "the connection to the Dask scheduler was lost; what was finished is in the run's folder, and "
    "the same command again goes on"
)


class _Batch(Batch):
    """Jobs on a cluster."""

    def __init__(self, client: Client, shared: bytes, tasks: Sequence[Any]) -> None:
        self._client = client
        self._name = f"sparsemble-{uuid4().hex}"
        self._told: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._shared = shared
        self._tasks = tasks
        self._deaths = [0] * len(tasks)
        self._futures: dict[Future, int] = {}
        self._looked = self._seen = time.monotonic()

    def __enter__(self) -> _Batch:
        """Send the jobs, and what they share, which the scheduler keeps: workers may get lost."""
        import dask

        self._client.subscribe_topic(self._name, self._receive)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            self._unpacked = self._client.submit(unpacked, self._shared, pure=False)
        for number in range(len(self._tasks)):
            self._send(number)
        return self

    def _receive(self, event: tuple[float, tuple[int, bytes]]) -> None:
        number, what = event[1]
        self._told.put((number, unpacked(what)))

    def _send(self, number: int) -> None:
        asked = (self._name, number, versions())
        future = self._client.submit(_do, self._unpacked, self._tasks[number], asked, pure=False)
        self._futures[future] = number

    @property
    def is_left(self) -> bool:
        """Is any job under way?"""
        return bool(self._futures)

    def heard(self) -> Iterator[tuple[int, Any]]:
        """What came over the scheduler."""
        while not self._told.empty():
            yield self._told.get()

    def done(self) -> Iterator[tuple[int, Any]]:
        """What came of those that have ended."""
        time.sleep(_LOOK_EVERY)
        with _losses_told():
            self._check_cluster()
        for future in [future for future in self._futures if future.done()]:
            number = self._futures.pop(future)
            if (outcome := self._outcome(future)) is None:
                self._futures[future] = number
                continue
            error, found = outcome
            if error is None:
                yield number, found
            else:
                self._failed(number, error)

    def _outcome(self, future: Future) -> tuple[BaseException | None, Any] | None:
        """What a job raised, or gave; nothing if its worker took that along: it is run again."""
        from distributed import CancelledError

        with _losses_told():
            try:
                error = future.exception(timeout=_SOON)
                return error, None if error else future.result(timeout=_SOON)
            except TimeoutError:
                return None
            except CancelledError:
                raise SparsembleError(_LOST) from None

    def _failed(self, number: int, error: BaseException) -> None:
        """Raise what a job raised; one that lost its worker too often is sent again."""
        from distributed import KilledWorker

        if not isinstance(error, KilledWorker):
            raise error
        self._deaths[number] += 1
        if self._deaths[number] == _DEATHS:
            raise SparsembleError(
                "a job lost its worker again and again (the last at "
                f"{error.last_worker.address}; out of memory?); the same command again goes on"
            )
        self._send(number)

    def _check_cluster(self) -> None:
        """Raise an error if the scheduler is gone, or once there has been no worker for long."""
        if self._client.status not in ("running", "connecting"):
            raise SparsembleError(_LOST)
        if time.monotonic() - self._looked < _SOON:
            return
        self._looked = time.monotonic()
        if self._client.scheduler_info(n_workers=-1)["workers"]:
            self._seen = self._looked
        elif self._looked - self._seen > _DESERTED:
            raise SparsembleError(
                f"the Dask cluster has had no worker for {_DESERTED:.0f} s; start some, and repeat "
                "the command: it goes on"
            )

    def ask_to_stop(self, number: int) -> None:
        """By word that it finds."""
        from distributed import Event

        Event(_word(self._name, number), client=self._client).set()

    def __exit__(self, *exception: object) -> None:
        """Let jobs save and end, unless nobody can tell them."""
        if self._client.status != "running":
            return
        with _losses_told():
            for number in self._futures.values():
                self.ask_to_stop(number)
            until = time.monotonic() + _SAVING
            while time.monotonic() < until and not all(f.done() for f in self._futures):
                time.sleep(_LOOK_EVERY)
            self._client.unsubscribe_topic(self._name)
            self._client.cancel([*self._futures, self._unpacked])


class _ToClient(Asking):
    """The line from a worker to the client."""

    def __init__(self, topic: str, number: int) -> None:
        from distributed import Event, get_client, get_worker

        super().__init__()
        self._worker = get_worker()
        self._stop = Event(_word(topic, number), client=get_client())
        self._topic, self._number = topic, number

    def tell(self, what: Any) -> None:
        self._worker.log_event(self._topic, (self._number, packed(what)))

    def _ask(self) -> bool:
        return bool(self._stop.is_set())


def _word(topic: str, number: int) -> str:
    """The name of what asks a job to stop."""
    return f"{topic}-stop-{number}"


_ONE_AT_A_TIME = threading.Lock()
"""PyTorch's random numbers and threads are those of a process."""


def _do(
    shared: tuple[Work[Any, Any, Any], Any], task: Any, asked: tuple[str, int, dict[str, str]]
) -> Any:
    """A job, on a worker."""
    from distributed import get_worker

    topic, number, wanted = asked
    check_versions(wanted, f"the worker at {get_worker().address}")
    work, common = shared
    with _ONE_AT_A_TIME, interrupts_told():
        return work(common, task, _ToClient(topic, number))
