"""Cases done in forked children: with limits of memory and time, watched by their parent.

A child does many cases, one after the other, and says of each when it begins and how it ended. One
that says nothing for long, or dies, has found something; the next one goes on after that case.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.kinds import Place, do, outside_in
from fuzz.seeds import Seeds

MEMORY = 2 << 30
"""Bytes that a case may take."""


@dataclass(frozen=True)
class Outcome:
    """How a case ended; `wrong` says what must not be, if anything."""

    kind: str
    number: int
    wrong: str | None


@dataclass(frozen=True)
class Order:
    """Cases to be done: of a kind, by their numbers."""

    kind: str
    seed: int
    numbers: range
    patience: float
    """Seconds until a case has hung."""


def outcomes(
    order: Order, seeds: Seeds, folder: Path, *, until: Callable[[], bool]
) -> Iterator[Outcome]:
    """Do the cases in order, until they are done or it is time."""
    number = order.numbers.start
    while number < order.numbers.stop and not until():
        rest = replace(order, numbers=range(number, order.numbers.stop))
        for outcome in _child(rest, seeds, folder):
            number = outcome.number + 1
            yield outcome
            if until():
                return


def _child(order: Order, seeds: Seeds, folder: Path) -> Iterator[Outcome]:
    """The outcomes of one child; it ends with the first case that ends it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            _work(order, seeds, folder, writing)
        finally:
            os._exit(0)
    os.close(writing)
    begun, done, ended = order.numbers.start, order.numbers.start - 1, False
    left = b""
    try:
        while not ended:
            if not select.select([reading], [], [], order.patience)[0]:
                yield Outcome(order.kind, begun, f"hangs for {order.patience:.0f} s")
                return
            content = os.read(reading, 1 << 16)
            ended = not content
            *lines, left = (left + content).split(b"\n")
            for line in lines:
                said = json.loads(line)
                begun = said["number"]
                if said["ended"]:
                    done = begun
                    yield Outcome(order.kind, done, said["wrong"])
        if done < order.numbers.stop - 1:
            yield Outcome(order.kind, max(begun, done + 1), "ended its process")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)


def _work(order: Order, seeds: Seeds, folder: Path, writing: int) -> None:
    """Do cases in this process, which is a child."""
    os.setpgid(0, 0)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(null, handle)

    def say(number: int, **what: object) -> None:
        os.write(writing, json.dumps({"number": number, **what}).encode() + b"\n")

    for number in order.numbers:
        say(number, ended=False)
        say(number, ended=True, wrong=_wrong_with(order, number, seeds, folder))


def _wrong_with(order: Order, number: int, seeds: Seeds, folder: Path) -> str | None:
    own = Path(tempfile.mkdtemp(dir=folder))
    try:
        place = Place(own / "work", outside_in(own))
        place.work.mkdir()
        os.chdir(place.work)
        do(order.kind, number, order.seed, seeds, place)
    except BaseException:
        return traceback.format_exc()[-6000:]
    finally:
        os.chdir(folder)
        shutil.rmtree(own, ignore_errors=True)
    return None
