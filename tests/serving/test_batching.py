"""Requests that come at once are computed together, in order, by one thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from sparsemble.serving.batching import Batching
from sparsemble.serving.limits import RefusedError


class Counting:
    """Doubles numbers; keeps who asked with whom, and waits at its gate while that is shut."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.gate = threading.Event()

    def __call__(self, asked: Sequence[int]) -> list[int | Exception]:
        self.gate.wait()
        self.batches.append(list(asked))
        self.threads.add(threading.get_ident())
        return [ValueError(own) if own < 0 else 2 * own for own in asked]


def run(compute: Callable, script: Callable, **how) -> None:
    """A script with what it asks through, which runs beside it."""

    async def whole() -> None:
        batching = Batching(compute, **how)
        try:
            await script(batching)
        finally:
            await batching.stop()

    asyncio.run(whole())


async def asking(batching: Batching, numbers: Sequence[int], rows: int = 1) -> list[asyncio.Task]:
    """All of them asked for, and waiting."""
    tasks = [asyncio.create_task(batching.ask(number, rows)) for number in numbers]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_what_waits_is_computed_together_in_the_order_it_came():
    counting = Counting()

    async def script(batching):
        first = await asking(batching, [0])
        rest = await asking(batching, range(1, 40))
        assert len(batching) == 39
        counting.gate.set()
        assert await asyncio.gather(*first, *rest) == [2 * number for number in range(40)]

    run(counting, script)
    assert counting.batches == [[0], list(range(1, 40))]
    assert len(counting.threads) == 1
    assert counting.threads != {threading.get_ident()}


def test_no_more_rows_than_allowed_are_computed_together_unless_one_request_has_more():
    counting = Counting()

    async def script(batching):
        first = await asking(batching, [0])
        pairs = await asking(batching, [1, 2, 3], rows=2)
        large = await asking(batching, [4], rows=9)
        counting.gate.set()
        await asyncio.gather(*first, *pairs, *large)

    run(counting, script, most_rows=4)
    assert counting.batches == [[0], [1, 2], [3], [4]]


def test_one_that_fails_leaves_the_others_alone():
    counting = Counting()
    counting.gate.set()

    async def script(batching):
        tasks = await asking(batching, [1, -1, 3])
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[0::2] == [2, 6]
        assert isinstance(found[1], ValueError)

    run(counting, script)


def test_a_computation_that_breaks_is_told_to_all_and_the_next_one_goes_on():
    broken = iter([True, False])

    def compute(asked):
        if next(broken):
            raise MemoryError("no room")
        return list(asked)

    async def script(batching):
        with pytest.raises(MemoryError):
            await batching.ask(1)
        assert await batching.ask(2) == 2

    run(compute, script)


def test_more_than_may_wait_are_refused_at_once_and_none_of_the_others_is_lost():
    counting = Counting()

    async def script(batching):
        first = await asking(batching, [0])
        waiting = await asking(batching, range(1, 6))
        with pytest.raises(RefusedError, match="5 requests wait already") as refused:
            await batching.ask(6)
        assert refused.value.status == 503
        counting.gate.set()
        assert len(await asyncio.gather(*first, *waiting)) == 6

    run(counting, script, waiting=5)


def test_whoever_has_gone_is_not_computed_for():
    counting = Counting()

    async def script(batching):
        first = await asking(batching, [0])
        gone, stayed = await asking(batching, [1, 2])
        gone.cancel()
        await asyncio.sleep(0)
        counting.gate.set()
        assert await asyncio.gather(*first, stayed) == [0, 4]

    run(counting, script)
    assert counting.batches == [[0], [2]]


def test_what_is_asked_after_a_stop_or_in_another_loop_is_answered():
    counting = Counting()
    counting.gate.set()
    batching = Batching(counting)

    async def asked_twice() -> list[int]:
        first = await batching.ask(1)
        await batching.stop()
        return [first, await batching.ask(2)]

    assert asyncio.run(asked_twice()) == [2, 4]
    assert asyncio.run(asyncio.wait_for(batching.ask(3), timeout=10)) == 6


def test_nobody_waits_for_ever_when_it_stops():
    counting = Counting()

    async def script(batching):
        tasks = await asking(batching, [0]) + await asking(batching, [1, 2])
        threading.Timer(0.2, counting.gate.set).start()  # it waits for what is being computed
        await batching.stop()
        gone = asyncio.gather(*tasks, return_exceptions=True)
        for found in await asyncio.wait_for(gone, timeout=10):
            assert isinstance(found, asyncio.CancelledError)

    run(counting, script)
