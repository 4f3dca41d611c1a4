"""`python -m fuzz`: cases of every kind for some time; findings are printed, counts at the end.

python -m fuzz --seconds 600                  # as long as that, all kinds in turn
python -m fuzz --cases 50 --few               # so many of each, with few things to spoil
python -m fuzz --kind run --from 1234 --cases 1   # one case again
python -m fuzz --seconds 600 --keep           # and write the counts into docs/safety.md
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing import Process, Queue, Value
from pathlib import Path

import torch
from rich.console import Console

from fuzz.children import Order, Outcome, outcomes
from fuzz.kinds import KINDS, imported
from fuzz.seeds import Seeds, made_in
from sparsemble.results.tables import Table, put_into
from sparsemble.runs.provenance import provenance

_PAGE = Path(__file__).parents[2] / "docs" / "safety.md"

_STRIDE = 200
"""Cases of one kind before it is another one's turn."""


def main() -> int:
    """Fuzz; the exit code says whether anything was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="Of each kind, at most.")
    parser.add_argument("--kind", choices=KINDS, action="append", help="By default all.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="first", type=int, default=0, help="The first case.")
    parser.add_argument("--seeds", type=Path, help="Folder to keep in what is spoiled.")
    parser.add_argument("--few", action="store_true", help="Spoil few kinds of ensembles.")
    parser.add_argument(
        "--patience", type=float, default=20.0, help="Seconds that a case may take."
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="Write counts into docs/safety.md.")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory) as name:
        folder = Path(name)
        seeds = made_in(asked.seeds or folder / "seeds", few=asked.few)
        imported(seeds, folder)
        plan = _Plan(
            asked.kind or list(KINDS), asked.seed, asked.first, asked.cases, asked.patience
        )
        found = _done(plan, time.monotonic() + asked.seconds, asked.processes, seeds, folder)
    table = _counted(found, asked)
    Console().print(table)
    if asked.keep:
        put_into(_PAGE, "fuzzing", [table])
    return int(any(outcome.wrong is not None for outcome in found))


@dataclass(frozen=True)
class _Plan:
    """All kinds in turn, a stretch of cases at a time."""

    kinds: list[str]
    seed: int
    first: int
    cases: int
    patience: float

    def order(self, turn: int) -> Order | None:
        """The cases of a turn; none once there are enough."""
        begin = turn // len(self.kinds) * _STRIDE
        numbers = range(self.first + begin, self.first + min(begin + _STRIDE, self.cases))
        kind = self.kinds[turn % len(self.kinds)]
        return Order(kind, self.seed, numbers, self.patience) if numbers else None


def _done(plan: _Plan, stop: float, processes: int, seeds: Seeds, folder: Path) -> list[Outcome]:
    """What came of the plan, in several processes that take turns."""
    results: Queue[Outcome | None] = Queue()

    def is_late() -> bool:
        return time.monotonic() >= stop

    turns = Value("i")

    def taken() -> int:
        """The next turn: whichever process is free takes it, so that no kind falls behind."""
        with turns:
            turns.value += 1
            return turns.value - 1

    def work() -> None:
        while not is_late() and (order := plan.order(taken())) is not None:
            for outcome in outcomes(order, seeds, folder, until=is_late):
                results.put(outcome)
        results.put(None)

    workers = [Process(target=work) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found: list[Outcome] = []
    left = processes
    while left:
        outcome = results.get()
        if outcome is None:
            left -= 1
            continue
        found.append(outcome)
        if outcome.wrong is not None:
            print(f"{outcome.kind} {outcome.number}: {outcome.wrong}\n", flush=True)
    for worker in workers:
        worker.join()
    return found


def _counted(found: list[Outcome], asked: argparse.Namespace) -> Table:
    """How many cases of each kind there were, and what was found."""
    cases = Counter(outcome.kind for outcome in found)
    wrong = Counter(outcome.kind for outcome in found if outcome.wrong is not None)
    rows = [(kind, f"{count:,}", str(wrong[kind])) for kind, count in sorted(cases.items())]
    where = provenance()
    title = f"Seed {asked.seed}, commit {where['commit']}, torch {where['torch']}"
    return Table(title, ("Spoiled", "Cases", "Findings"), tuple(rows))


if __name__ == "__main__":
    sys.exit(main())
