"""Fair ratios on a noisy machine: alternate the contestants, take medians, each at its best."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

THREADS = (1, 2)


@dataclass(frozen=True)
class Measure:
    """Ours and the reference (seconds, or memory), and the ratio that is aimed at."""

    label: str
    ours: float
    reference: float
    bound: float | None


measures: list[Measure] = []
"""What was reported."""


def alternate(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int = 15, repeats: int = 20
) -> dict[str, tuple[float, int]]:
    """Median seconds of each contestant at its better thread count, and that count."""
    times: dict[tuple[str, int], list[float]] = {}
    for contestant in contestants.values():
        contestant()
    for _ in range(rounds):
        for threads in THREADS:
            torch.set_num_threads(threads)
            for name, contestant in contestants.items():
                contestant()
                start = time.perf_counter()
                for _ in range(repeats):
                    contestant()
                elapsed = (time.perf_counter() - start) / repeats
                times.setdefault((name, threads), []).append(elapsed)
    best = {}
    for name in contestants:
        medians = {threads: statistics.median(times[name, threads]) for threads in THREADS}
        threads = min(medians, key=lambda count: medians[count])
        best[name] = (medians[threads], threads)
    return best


def report(
    label: str, ours: tuple[float, int], reference: tuple[float, int], bound: float | None = None
) -> None:
    """One line: the ratio, both times with their thread counts, and the bound it should keep."""
    measures.append(Measure(label, ours[0], reference[0], bound))
    ratio = ours[0] / reference[0]
    wanted = "" if bound is None else f", wanted at most {bound:.2f}"
    print(f"{label}: {ratio:.2f} ({_time(ours)}, {_time(reference)}{wanted})", flush=True)


def _time(measured: tuple[float, int]) -> str:
    seconds, threads = measured
    plural = "thread" if threads == 1 else "threads"
    return f"{1000 * seconds:.3f} ms on {threads} {plural}"
