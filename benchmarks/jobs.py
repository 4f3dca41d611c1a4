"""Jobs side by side: two processes ÷ one, what a job costs on every engine, and what follows.

`python benchmarks/jobs.py --keep` writes results/jobs.json and the tables of docs/clusters.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import timing
import torch

import sparsemble
from sparsemble.engines import Engine
from sparsemble.engines.choosing import engine_on
from sparsemble.engines.processes import Processes
from sparsemble.processes.interrupts import StopRequest
from sparsemble.results.tables import Table, put_into
from sparsemble.runs.provenance import provenance
from sparsemble.store import write_json

ROOT = Path(__file__).parent.parent
ENGINES = {"processes": 1, "Dask": "dask", "Ray": "ray"}
CHAINS = {
    **{"chain.chains": 4, "chain.epochs": 150, "chain.burn_in": 90, "chain.interval": 60},
    **{"retrain.epochs": 5, "network.hidden": [256, 128]},
}
JOBS = 50
MACHINES = (1, 10, 1000)
CHAIN = 600.0
"""Seconds of a job in the arithmetic: a chain, a run of a search."""
NETWORK = 1.25e9
"""Bytes a second between machines: 10 Gbit."""


def measure() -> None:
    """What `make bench` reports."""
    one, two = four_chains()
    timing.report("four chains, two processes ÷ one", (two, 1), (one, 1), 0.6)


def four_chains(rounds: int = 2) -> tuple[float, float]:
    """Seconds of a run with four chains on one process and on two, which are running already."""
    times: dict[int, list[float]] = {1: [], 2: []}
    with Processes(1) as one, Processes(2) as two:
        for _ in range(rounds + 1):
            for count, engine in ((1, one), (2, two)):
                times[count].append(_run(engine))
    return statistics.median(times[1][1:]), statistics.median(times[2][1:])


def _run(engine: Engine) -> float:
    recipe = sparsemble.load_recipe("digits", CHAINS)
    train, _ = sparsemble.digits()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        sparsemble.learn(
            lambda: recipe.network.build(64, 10), train, recipe, folder=folder, on=engine
        )
        return time.perf_counter() - began


def nothing(common: object, task: int, line: object) -> int:
    """The job that is all overhead."""
    return task


def overheads() -> dict[str, dict[str, float]]:
    """Of every engine: seconds until its first job is done, and of every further one."""
    found = {}
    for name, on in ENGINES.items():
        began = time.perf_counter()
        with engine_on(on, 1) as engine:
            _nothing(engine, 1)
            started = time.perf_counter() - began
            began = time.perf_counter()
            _nothing(engine, JOBS)
            each = (time.perf_counter() - began) / JOBS
        found[name] = {"start": started, "job": each}
    return found


def _nothing(engine: Engine, jobs: int) -> None:
    how: dict[str, Any] = {"hear": lambda *told: None, "stop": StopRequest()}
    assert len(dict(engine.run(nothing, None, range(jobs), **how))) == jobs


def overhead_table(found: dict[str, dict[str, float]]) -> Table:
    rows = [(name, f"{f['start']:.1f} s", f"{1000 * f['job']:.0f} ms") for name, f in found.items()]
    return Table("Measured overheads", ("Engine", "First job", "Every further job"), tuple(rows))


def arithmetic(found: dict[str, dict[str, float]]) -> Table:
    """How many times as fast so many machines are, by the overheads of Dask."""
    start, each = found["Dask"]["start"], found["Dask"]["job"]
    rows = []
    for name, jobs in (
        ("a run of 4 chains", 4),
        ("a run of 18 chains", 18),
        ("a search of 200 points", 200),
        ("a table of 12 rows × 5 seeds", 60),
    ):
        alone = jobs * CHAIN
        times = [
            start + math.ceil(jobs / count) * (CHAIN + each) + jobs * each for count in MACHINES
        ]
        rows.append((f"{name}: {jobs} jobs", *(f"{alone / taken:.1f}×" for taken in times)))
    for name, seconds, parameters in (
        ("torchrun, a step of 0.3 s, 20 M weights", 0.3, 20e6),
        ("torchrun, a step of 5 ms, 0.5 M weights", 0.005, 0.5e6),
    ):
        times = [seconds / n + (2 * 4 * parameters / NETWORK if n > 1 else 0) for n in MACHINES]
        rows.append((name, *(f"{seconds / taken:.1f}×" for taken in times)))
    header = ("Work", *(f"{n:,} machine{'s' if n > 1 else ''}" for n in MACHINES))
    return Table("How many times as fast", header, tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description="Jobs side by side.")
    parser.add_argument("--keep", action="store_true", help="write them into results and docs")
    chosen = parser.parse_args()
    torch.set_flush_denormal(True)
    found = overheads()
    tables = [overhead_table(found), arithmetic(found)]
    for table in tables:
        print(table.title, table.markdown(), sep="\n", end="\n\n")
    measure()
    if chosen.keep:
        write_json(ROOT / "results" / "jobs.json", {"provenance": provenance(), "engines": found})
        put_into(ROOT / "docs" / "clusters.md", "jobs", tables)


if __name__ == "__main__":
    main()
