"""Running many recipes: those with the same chain one after the other, sharing its samples.

Several processes may work at once, one thread each; every finished recipe is a result file, so
whatever was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from sparsemble.errors import DivergedError, InputError
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.progress import TerminalProgress
from sparsemble.runs.results import Result, read_result, run_recipe, write_result
from sparsemble.runs.workers import Worker, first_done


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
    """The same, with divergence as one of the outcomes."""
    batches: dict[str, list[Job]] = {}
    for job in jobs:
        if job.result.exists():
            known = read_result(job.result)
            if known.recipe != job.recipe:
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


def _side_by_side(waiting: list[list[Job]], place: Workplace) -> Iterator[tuple[Job, Outcome]]:
    """Run batches in processes; whatever ends this, the runs under way save and no other begins."""
    quiet = replace(place, console=None)  # a console cannot go to another process
    running: dict[Worker[list[Outcome]], list[Job]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < place.processes:
                batch = waiting.pop(0)
                worker = Worker(_run_batch, batch, quiet, console=place.console)
                running[worker.start()] = batch
            for worker in first_done(running):
                yield from zip(running.pop(worker), worker.result(), strict=True)
    finally:
        for worker in running:
            worker.stop()
        for worker in running:
            worker.join()


def chosen_rows(wanted: Sequence[str], known: Sequence[str], where: str) -> list[str]:
    """The rows of an experiment that were asked for; all of them if none was."""
    for name in wanted:
        if name not in known:
            raise InputError(f"no row {name!r} in {where}; there are {', '.join(known)}")
    return list(wanted or known)


def seeded_jobs(name: str, seeds: int, out: Path) -> list[Job]:
    """A built-in recipe with seeds 0, 1, …"""
    return [
        Job(load_recipe(name, {"seed": seed}), out / f"{name}-seed{seed}.json")
        for seed in range(seeds)
    ]


def seeded_results(name: str, out: Path) -> list[Result]:
    """What such jobs have left, in the order of seeds."""
    results = [read_result(path) for path in out.glob(f"{name}-seed*.json")]
    return sorted(results, key=lambda result: result.recipe.seed)


def chain_key(recipe: Recipe) -> str:
    """A name for everything a recipe's samples depend on, except how many chains there are."""
    relevant = {"seed", "data", "network", "grouping", "window"}
    fields = recipe.model_dump(mode="json", include=relevant, exclude={"data": {"measure"}})
    chain = recipe.chain.model_dump(mode="json", exclude={"chains"})
    text = json.dumps([fields, recipe.prior.model_dump(mode="json"), chain], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def saved_ensemble(job: Job, place: Workplace) -> Path:
    """Where a finished job's ensemble lies."""
    return RunFolder(_run_folder(job, place)).ensemble


def _run_folder(job: Job, place: Workplace) -> Path:
    return place.folder / f"{job.result.stem}-{chain_key(job.recipe)}"


def _run_batch(console: Console, batch: list[Job], place: Workplace) -> list[Outcome]:
    return [_run(job, replace(place, console=console)) for job in batch]


def _run(job: Job, place: Workplace) -> Outcome:
    key = chain_key(job.recipe)
    label = f"{job.recipe.name} seed {job.recipe.seed}"
    progress = TerminalProgress(place.console, label, lines_every=60) if place.console else None
    try:
        result = run_recipe(
            job.recipe,
            _run_folder(job, place),
            samples_folder=place.folder / f"chain-{key}",
            data_folder=place.data_folder,
            observer=progress,
        )
    except DivergedError as error:
        return error
    finally:
        if progress is not None:
            progress.close()
    write_result(result, job.result)
    return result
