"""`python -m fuzz`: cases of every kind for some time; findings are printed, counts at the end.

python -m fuzz --seconds 600                  # as long as that, all kinds in turn
python -m fuzz --kind run --case 1234         # one case again
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from multiprocessing import Process, Queue
from pathlib import Path

import torch

from fuzz.children import Order, Outcome, outcomes
from fuzz.kinds import KINDS
from fuzz.seeds import Seeds, made_in

_STRIDE = 200
"""Cases of one kind before it is another one's turn."""


def main() -> int:
    """Fuzz; the exit code says whether anything was found."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="Only this one.")
    parser.add_argument("--from", dest="first", type=int, default=0, help="The first case.")
    parser.add_argument("--seeds", type=Path, help="Folder to keep what is whole in.")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    kinds = asked.kind or list(KINDS)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        seeds = made_in(asked.seeds or folder / "seeds")
        if asked.case is not None:
            order = Order(kinds[0], asked.seed, range(asked.case, asked.case + 1))
            found = list(outcomes(order, seeds, folder, until=lambda: False))
        else:
            found = _in_turn(kinds, asked, seeds, folder)
    return _told(found)


def _in_turn(
    kinds: list[str], asked: argparse.Namespace, seeds: Seeds, folder: Path
) -> list[Outcome]:
    """All kinds in turn, in several processes, each with every n-th stretch of the cases."""
    results: Queue[Outcome | None] = Queue()
    stop = time.monotonic() + asked.seconds

    def work(own: int) -> None:
        turn = own
        while time.monotonic() < stop:
            kind, round_ = kinds[turn % len(kinds)], turn // len(kinds)
            first = asked.first + round_ * _STRIDE
            order = Order(kind, asked.seed, range(first, first + _STRIDE))
            for outcome in outcomes(order, seeds, folder, until=lambda: time.monotonic() >= stop):
                results.put(outcome)
            turn += asked.processes
        results.put(None)

    workers = [Process(target=work, args=(own,)) for own in range(asked.processes)]
    for worker in workers:
        worker.start()
    found: list[Outcome] = []
    left = len(workers)
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


def _told(found: list[Outcome]) -> int:
    cases = Counter(outcome.kind for outcome in found)
    wrong = Counter(outcome.kind for outcome in found if outcome.wrong is not None)
    if len(found) == 1 and found[0].wrong is not None:
        print(found[0].wrong)
    for kind, count in sorted(cases.items()):
        print(f"{kind:10} {count:8,} cases, {wrong[kind]} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
