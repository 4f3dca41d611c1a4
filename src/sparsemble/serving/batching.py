"""Requests that come at once are computed together: a queue, and one thread that computes.

The thread takes what waits, in the order it came, up to a number of rows. While it computes, more
comes together by itself, so that nobody has to wait for others to come. Everything but the
computing is done by the event loop: nothing needs a lock. The first request begins it, in whatever
loop that comes: an application that is mounted in another is never told when it starts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from sparsemble.serving.limits import RefusedError

Asked = TypeVar("Asked")


class Batching(Generic[Asked]):
    """Calls one function with many requests at a time.

    Args:
        compute: What is called, in a thread of its own: for each request an answer, or the error
            that is raised for it.
        most_rows: Of the requests that are computed together; one alone may have more.
        waiting: Requests that may wait; one more is refused.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Asked]], Sequence[Any]],
        *,
        most_rows: int = 256,
        waiting: int = 256,
    ) -> None:
        self._compute, self._most_rows = compute, most_rows
        self._most_waiting = waiting
        self._queue: deque[tuple[Asked, int, asyncio.Future[Any]]] = deque()
        self._came = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    async def ask(self, asked: Asked, rows: int = 1) -> Any:
        """The answer to one request of so many rows."""
        if len(self._queue) >= self._most_waiting:
            raise RefusedError(503, f"{len(self._queue)} requests wait already: come again soon")
        self._begin()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((asked, rows, answer))
        self._came.set()
        return await answer

    async def stop(self) -> None:
        """Compute no more; nothing is left waiting. What is asked later begins anew."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _begin(self) -> None:
        """Compute in the loop that runs, unless that is done already."""
        loop = asyncio.get_running_loop()
        known = self._running
        if known is None or known.done() or known.get_loop() is not loop:
            self._queue.clear()  # of a loop that has ended
            self._came = asyncio.Event()
            self._running = loop.create_task(self._run())

    async def _run(self) -> None:
        """Compute what is asked for, until cancelled."""
        thread = ThreadPoolExecutor(1, "predicting")
        try:
            while True:
                await self._came.wait()
                await self._answer(self._next(), thread)
        finally:
            thread.shutdown(wait=True, cancel_futures=True)
            for _, _, answer in self._queue:
                answer.cancel()
            self._queue.clear()

    def _next(self) -> list[tuple[Asked, asyncio.Future[Any]]]:
        """What is computed together next: at least one request, those of clients that are gone
        left out."""
        taken: list[tuple[Asked, asyncio.Future[Any]]] = []
        total = 0
        while self._queue and (not taken or total + self._queue[0][1] <= self._most_rows):
            asked, rows, answer = self._queue.popleft()
            if not answer.done():
                taken.append((asked, answer))
                total += rows
        if not self._queue:
            self._came.clear()
        return taken

    async def _answer(
        self, taken: Sequence[tuple[Asked, asyncio.Future[Any]]], thread: ThreadPoolExecutor
    ) -> None:
        if not taken:
            return
        loop = asyncio.get_running_loop()
        found: Sequence[Any]
        try:
            requests = [asked for asked, _ in taken]
            found = await loop.run_in_executor(thread, self._compute, requests)
        except asyncio.CancelledError:
            for _, answer in taken:
                answer.cancel()
            raise
        except Exception as error:  # the service goes on
            found = [error] * len(taken)
        for (_, answer), own in zip(taken, found, strict=True):
            if answer.done():
                continue
            if isinstance(own, Exception):
                answer.set_exception(own)
            else:
                answer.set_result(own)
