"""Requests that come at once are computed together: a queue, and one thread that computes.

The thread takes what waits, in the order it came, up to a number of rows. While it computes, more
comes together by itself, so that nobody has to wait for others to come. Everything but the
computing is done by the event loop: nothing needs a lock.
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
        self._thread = ThreadPoolExecutor(1, "predicting")

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    async def ask(self, asked: Asked, rows: int = 1) -> Any:
        """The answer to one request of so many rows."""
        if len(self._queue) >= self._most_waiting:
            raise RefusedError(503, f"{len(self._queue)} requests wait already: come again soon")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((asked, rows, answer))
        self._came.set()
        return await answer

    async def run(self) -> None:
        """Compute what is asked for, until cancelled; then nothing is left waiting."""
        try:
            while True:
                await self._came.wait()
                await self._answer(self._next())
        finally:
            self._thread.shutdown(wait=True, cancel_futures=True)
            for _, _, answer in self._queue:
                answer.cancel()

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

    async def _answer(self, taken: Sequence[tuple[Asked, asyncio.Future[Any]]]) -> None:
        if not taken:
            return
        loop = asyncio.get_running_loop()
        found: Sequence[Any]
        try:
            requests = [asked for asked, _ in taken]
            found = await loop.run_in_executor(self._thread, self._compute, requests)
        except Exception as error:  # the service goes on
            found = [error] * len(taken)
        for (_, answer), own in zip(taken, found, strict=True):
            if answer.done():
                continue
            if isinstance(own, Exception):
                answer.set_exception(own)
            else:
                answer.set_result(own)
