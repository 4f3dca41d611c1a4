"""Short runs killed at every file operation, each time resumed, to the bits of the whole run.

    python tests/end_to_end/kill_everywhere.py                all of them, in minutes
    python tests/end_to_end/kill_everywhere.py --kills 5      so many of each kind, spread evenly

Every process is forked from one that has imported and computed everything once, so that a kill and
what goes on after it take a fraction of a second. Checkpoints are written by the number of steps,
not by the clock, and jobs are done by the same process: the same operations come in the same order
each time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads cannot be forked safely

import torch
from file_operations import Manner, Operations

from sparsemble.cli.main import main as sparsemble
from sparsemble.engines import processes
from sparsemble.engines.engine import Engine
from sparsemble.results import beside
from sparsemble.runs import checkpointing

STEPS = 6
"""Between two checkpoints."""
BOTH = {"chain.burn_in": 0, "chain.epochs": 2, "retrain.epochs": 2}
RUNS: dict[str, dict[str, Any]] = {
    "digits": {
        **BOTH,
        "data.validation": 100,
        "network.hidden": [12, 8],
        "chain.chains": 2,
        "chain.interval": 2,
        "chain.batch_size": 300,
        "retrain.batch_size": 300,
    },
    "grammar": {
        **BOTH,
        "data.name": "text",
        "network.hidden": [6, 5],
        "chain.interval": 1,
        "chain.batch_size": 5,
        "retrain.batch_size": 5,
        "task.window": 10,
    },
}
KINDS = {
    "digits": ("--baseline", "none"),
    "digits beside a dense network": ("--baseline", "1"),
    "digits by jobs": ("--baseline", "none", "--jobs", "1"),
    "grammar": ("--baseline", "none"),
    "grammar beside a dense network": ("--baseline", "1"),
}
"""Kinds of runs, which begin with the name of a recipe, and the options that make them."""
SECOND = 3
"""Every so many operations the run that goes on is killed as well."""


class _Steps:
    """A clock that goes on by one whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic(self) -> int:
        self.now += 1
        return self.now


class _Here(Engine):
    """An engine that does jobs one after the other, in this process."""

    is_here = True
    size = 1

    def __init__(self, count: int) -> None:
        assert count == 1

    def run(self, work, common, tasks, *, hear, stop) -> Generator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            yield number, work(common, task, _Line(number, hear, stop))

    def begun(self, shared, tasks) -> Any:
        raise AssertionError("runs are made of jobs that are waited for, one after the other")

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Line:
    number: int
    hear: Any
    stop: Any

    def tell(self, what: Any) -> None:
        self.hear(self.number, what)

    @property
    def stop_requested(self) -> bool:
        return self.stop.stop_requested


@dataclass(frozen=True)
class Kill:
    """At an operation of the run and, if `again` is not 0, at one of the run that goes on."""

    at: int
    manner: Manner
    again: int = 0


@dataclass(frozen=True)
class Kind:
    """A kind of run."""

    name: str
    options: tuple[str, ...]

    def process(self, folder: Path, operations: Operations) -> int:
        """The exit code of a process that begins the run, or goes on with it."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os._exit(self._child(folder, operations))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _child(self, folder: Path, operations: Operations) -> int:
        log = os.open(_log(folder), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for output in (1, 2):
            os.dup2(log, output)
        operations.watch(sys.addaudithook)
        code = self.run(folder)
        sys.stderr.flush()
        _seen(folder).write_text(json.dumps([operations.seen, operations.missed]))
        return code

    def run(self, folder: Path) -> int:
        """Run it in this process."""
        sys.argv = ["sparsemble", "learn", *self.options, "--quiet", "--out", str(folder)]
        try:
            sparsemble()
        except SystemExit as stop:
            return int(stop.code or 0)
        except BaseException:
            traceback.print_exc()
        return 1

    def whole(self, folder: Path) -> list[str]:
        """Run it to its end; the operations that this took."""
        if self.process(folder, Operations(folder)) != 0:
            raise SystemExit(f"{self.name} does not run:\n{_log(folder).read_text()}")
        seen, missed = json.loads(_seen(folder).read_text())
        if missed:
            raise SystemExit(f"{self.name} changes files uncounted: {', '.join(missed)}")
        return seen

    def killed(self, folder: Path, kill: Kill) -> str | None:
        """Kill it, go on to its end; what went wrong on the way, if anything."""
        if self.process(folder, Operations(folder, kill.at, kill.manner)) != -signal.SIGKILL:
            return f"was not killed: {_log(folder).read_text()[-2000:]}"
        code = -signal.SIGKILL if kill.again else 0
        if kill.again:
            code = self.process(folder, Operations(folder, kill.again, kill.manner))
        if code == -signal.SIGKILL or not kill.again:
            code = self.process(folder, Operations(folder))
        return None if code == 0 else f"did not go on: {_log(folder).read_text()[-2000:]}"


def _log(folder: Path) -> Path:
    return folder.with_suffix(".log")


def _seen(folder: Path) -> Path:
    return folder.with_suffix(".seen")


def kinds(place: Path) -> Iterator[Kind]:
    """All of them; texts are written into a folder."""
    chance = random.Random(0)
    for part, sentences in (("train", 60), ("valid", 6), ("test", 6)):
        lines = [" ".join(chance.choices("abcdefghij", k=5)) for _ in range(sentences)]
        (place / f"{part}.txt").write_text("\n".join(lines))
    for name, options in KINDS.items():
        recipe = name.partition(" ")[0]
        changes = {**RUNS[recipe], **({"data.path": str(place)} if recipe == "grammar" else {})}
        settings = [f"--set={key}={json.dumps(value)}" for key, value in changes.items()]
        yield Kind(name, (recipe, *settings, *options))


def left_by(folder: Path) -> dict[str, Any]:
    """All files of a run and what they say, but for the time that it took and who ran it."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def _content(path: Path) -> Any:
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_bytes()))
    if path.suffix == ".jsonl":
        lines = [line.partition(" ")[2] for line in path.read_text().splitlines()]
        return [_timeless(json.loads(line)) for line in lines]
    # A checkpoint also keeps the seconds of the epoch under way.
    return None if path.name == "checkpoint.safetensors" else path.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if not _is_timed(key, inner)}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def _is_timed(key: str, value: Any) -> bool:
    """Does it depend on the clock, or say by whom a run was begun and ended?"""
    measured = key == "prediction" or (key == "training" and isinstance(value, float))
    return measured or "seconds" in key or key in ("sha256", "provenance")


def difference(found: dict[str, Any], wanted: dict[str, Any]) -> str | None:
    """Which files are not as they should be."""
    names = sorted(found.keys() | wanted.keys())
    other = [name for name in names if found.get(name, "") != wanted.get(name, "")]
    return f"other files: {', '.join(other)}" if other else None


def visits(operations: Sequence[str], kills: int | None) -> list[Kill]:
    """Before every operation, amid every write, some with a second kill; or a few of all these.

    Amid anything else is just before the next operation, but for the last one.
    """
    every = []
    for at, what in enumerate(operations, start=1):
        every.append(Kill(at, "before"))
        if what.startswith("write") or at == len(operations):
            every.append(Kill(at, "amid"))
        if at % SECOND == 0:
            every.append(Kill(at, "before", again=1 + at * 7 % 20))
    if kills is None or kills >= len(every):
        return every
    return [every[(2 * number + 1) * len(every) // (2 * kills)] for number in range(kills)]


@contextmanager
def _warm() -> Iterator[Path]:
    """A folder for runs, in a process whose clock is a counter and which has one thread."""
    checkpointing.time = _Steps()
    checkpointing.CHECKPOINT_EVERY = STEPS
    beside.Processes = processes.Processes = _Here
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        yield Path(place)


def visit(kind: Kind, place: Path, kills: int | None) -> tuple[int, int, list[str]]:
    """Kill a kind of run everywhere: how many operations it has, how many kills, what failed."""
    shutil.rmtree(place / "whole", ignore_errors=True)
    operations = kind.whole(place / "whole")
    wanted = left_by(place / "whole")
    failed = []
    planned = visits(operations, kills)
    for kill in planned:
        folder = place / "killed"
        problem = kind.killed(folder, kill) or difference(left_by(folder), wanted)
        if problem is not None:
            what = operations[kill.at - 1].replace(str(place / "whole"), "RUN")
            failed.append(f"{kind.name}: {kill} ({what}): {problem}")
            print(failed[-1], flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _log(folder).unlink(missing_ok=True)
    return len(operations), len(planned), failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Visit, say what was found; 1 if a run did not come to the same bits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, help="of each kind, spread evenly; default: all")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind of run")
    given = parser.parse_args(arguments)
    failed = []
    with _warm() as place:
        for kind in kinds(place):
            if given.kind is None or kind.name in given.kind:
                with open(os.devnull, "w") as nowhere:
                    said, sys.stdout = sys.stdout, nowhere
                    kind.run(place / "warm")  # what it imports, all children have imported
                    sys.stdout = said
                shutil.rmtree(place / "warm")
                gc.freeze()  # nor do they look through it for what can go
                operations, kills, wrong = visit(kind, place, given.kills)
                failed += wrong
                print(
                    f"{kind.name}: {operations} operations, {kills} kills, {len(wrong)} failed",
                    flush=True,
                )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
