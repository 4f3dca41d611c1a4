"""Running many recipes: those with the same chain one after the other, sharing its samples.

Several processes may work at once, one thread each; every finished recipe is a result file, so
whatever was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sparsemble.errors import DivergedError, InputError
from sparsemble.processes.workers import Worker
from sparsemble.progress.showing import shown
from sparsemble.recipes import Recipe
from sparsemble.results import Result, read_result, run_recipe, write_result
from sparsemble.runs.folder import RunFolder


@dataclass(frozen=True)
class Job:
    """One recipe and the file its result goes to."""

    recipe: Recipe
    result: Path


@dataclass(frozen=True)
class Workplace:
    """Where jobs are run: the folder for runs under way, how many at a time, data, progress."""

    folder: Path
    processes: int = 1
    data_folder: Path | None = None
    console: Console | None = None


Outcome = Result | DivergedError


def run_jobs(jobs: Sequence[Job], place: Workplace) -> Iterator[tuple[Job, Result]]:
    """Run what has no result file yet, in order; yield each job with its result as it is ready.

    A chain that diverges ends it.
    """
    for job, outcome in outcomes(jobs, place):
        if isinstance(outcome, DivergedError):
            raise outcome
        yield job, outcome


def outcomes(jobs: Sequence[Job], place: Workplace) -> Iterator[tuple[Job, Outcome]]:
    """Run what has no result file yet; of a chain that diverges the error is the outcome."""
    batches: dict[str, list[Job]] = {}
    for job in jobs:
        if job.result.exists():
            known = read_result(job.result)
            if not known.recipe.is_same_run(job.recipe):
                raise InputError(
                    f"{job.result} was made by another version of recipe {job.recipe.name!r}; move "
                    "it away or use another folder"
                )
            yield job, known
        else:
            batches.setdefault(chain_key(job.recipe), []).append(job)
    if place.processes == 1:
        for batch in batches.values():
            for job in batch:
                yield job, _run(job, place)
        return
    yield from _side_by_side(list(batches.values()), place)


def _side_by_side(batches: list[list[Job]], place: Workplace) -> Iterator[tuple[Job, Outcome]]:
    """Run batches in processes; whatever ends this, the runs under way save and no other begins."""
    lanes, waiting = _Lanes(place), deque(batches)
    under_way: set[Future[list[tuple[Job, Outcome]]]] = set()
    with ThreadPoolExecutor(place.processes) as pool:
        try:
            while waiting or under_way:
                # Only now: who has seen enough results may not want the next one to begin.
                while waiting and len(under_way) < place.processes:
                    under_way.add(pool.submit(lanes.run, waiting.popleft()))
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for batch in done:
                    yield from batch.result()
        finally:
            lanes.stop()


class _Lanes:
    """Workers side by side, each with one thread; one after the other within a batch."""

    def __init__(self, place: Workplace) -> None:
        self._place = place
        self._workers: set[Worker] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, batch: list[Job]) -> list[tuple[Job, Outcome]]:
        return [(job, outcome) for job in batch if (outcome := self._run(job)) is not None]

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for worker in self._workers:
                worker.stop()

    def _run(self, job: Job) -> Outcome | None:
        place, folder = self._place, _run_folder(job, self._place)
        with self._lock:
            if self._stopped:
                return None
            with RunFolder(folder, _samples_folder(job, place)).locked() as run:
                run.claim(job.recipe, threads=1)
            worker = Worker(
                folder, data_folder=place.data_folder, code=job.recipe.code, console=place.console
            )
            self._workers.add(worker)
        try:
            worker.wait()
        except DivergedError as error:
            return error
        finally:
            self._workers.discard(worker)
        result = read_result(RunFolder(folder).result, job.recipe.code)
        write_result(result, job.result)
        return result


def chosen_rows(wanted: Sequence[str], known: Sequence[str], where: str) -> list[str]:
    """The rows of an experiment that were asked for; all of them if none was."""
    for name in wanted:
        if name not in known:
            raise InputError(f"no row {name!r} in {where}; there are {', '.join(known)}")
    return list(wanted or known)


def seeded_jobs(recipe: Recipe, seeds: int, out: Path, name: str = "") -> list[Job]:
    """A recipe with seeds 0, 1, …; results are called by its name, or by another."""
    return [
        Job(
            recipe.model_copy(update={"seed": seed}), out / f"{name or recipe.name}-seed{seed}.json"
        )
        for seed in range(seeds)
    ]


def seeded_results(name: str, out: Path) -> list[Result]:
    """What such jobs have left, in the order of seeds."""
    results = [read_result(path) for path in out.glob(f"{name}-seed*.json")]
    return sorted(results, key=lambda result: result.recipe.seed)


def chain_key(recipe: Recipe) -> str:
    """A name for everything a recipe's samples depend on, except how many chains there are."""
    relevant = {"seed", "data", "network", "grouping", "task"}
    fields = recipe.model_dump(mode="json", include=relevant, exclude={"data": {"measure"}})
    chain = recipe.chain.what_samples_depend_on()
    prior = recipe.model_dump(mode="json", include={"prior"})
    text = json.dumps([fields, prior, chain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def saved_ensemble(job: Job, place: Workplace) -> Path:
    """Where a finished job's ensemble lies."""
    return RunFolder(_run_folder(job, place)).ensemble


def _run_folder(job: Job, place: Workplace) -> Path:
    return place.folder / f"{job.result.stem}-{chain_key(job.recipe)}"


def _samples_folder(job: Job, place: Workplace) -> Path:
    return place.folder / f"chain-{chain_key(job.recipe)}"


def _run(job: Job, place: Workplace) -> Outcome:
    label = f"{job.recipe.name} seed {job.recipe.seed}"
    with ExitStack() as views:
        callback = None
        if place.console is not None:
            callback = views.enter_context(shown(place.console, label, lines_every=60))
        try:
            result = run_recipe(
                job.recipe,
                _run_folder(job, place),
                samples_folder=_samples_folder(job, place),
                data_folder=place.data_folder,
                callback=callback,
            )
        except DivergedError as error:
            return error
    write_result(result, job.result)
    return result
