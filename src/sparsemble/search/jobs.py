"""Running many recipes: those with the same chain one after the other, sharing its samples.

They may run side by side on an engine, with one thread each; every finished recipe is a result
file, so whatever was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from sparsemble.engines import Engine
from sparsemble.engines.telling import told_on
from sparsemble.errors import DivergedError, InputError
from sparsemble.processes.interrupts import stop_requests
from sparsemble.progress.several import SeveralRuns
from sparsemble.progress.showing import shown
from sparsemble.recipes import Recipe
from sparsemble.results import Result, read_result, run_recipe, write_result
from sparsemble.results.orders import Made, Order, make_runs
from sparsemble.runs.folder import RunFolder
from sparsemble.search.watching import Abandoned, AbandonedError, Watcher
from sparsemble.stages import Callback, Callbacks, EpochRecord, SampleRecord


@dataclass(frozen=True)
class Job:
    """One recipe and the file its result goes to."""

    recipe: Recipe
    result: Path


@dataclass(frozen=True)
class Workplace:
    """Where jobs are run: the folder for runs under way, engine or here, data, progress, device."""

    folder: Path
    engine: Engine | None = None
    data_folder: Path | None = None
    console: Console | None = None
    device: str = "cpu"

    @property
    def size(self) -> int:
        """How many jobs are under way at a time."""
        return 1 if self.engine is None else self.engine.size


Outcome = Result | DivergedError | Abandoned
Watch = Callable[[Job, EpochRecord | SampleRecord], bool]
"""Is told every record of a job while it runs; true abandons the job."""


def run_jobs(jobs: Sequence[Job], place: Workplace) -> Iterator[tuple[Job, Result]]:
    """Run what has no result file yet, in order; yield each job with its result as it is ready.

    A chain that diverges ends it.
    """
    for job, outcome in outcomes(jobs, place):
        if isinstance(outcome, DivergedError):
            raise outcome
        assert isinstance(outcome, Result), "nobody watches"
        yield job, outcome


def outcomes(
    jobs: Sequence[Job], place: Workplace, watch: Watch | None = None
) -> Iterator[tuple[Job, Outcome]]:
    """Run what has no result file yet; of a chain that diverges the error is the outcome.

    Args:
        jobs: What is run; those with the same chain share its samples.
        place: Where, and how many at a time.
        watch: Asked about every record whether to abandon its job.
    """
    batches: dict[str, list[Job]] = {}
    for job in jobs:
        if job.result.exists():
            yield job, _result_of(job.recipe, job.result)
        else:
            batches.setdefault(chain_key(job.recipe), []).append(job)
    waiting = list(batches.values())
    if place.engine is None:
        for job in (job for batch in waiting for job in batch):
            yield job, _run(job, place, watch)
    else:
        yield from _side_by_side(waiting, place, place.engine, watch)


def _side_by_side(
    batches: Sequence[Sequence[Job]], place: Workplace, engine: Engine, watch: Watch | None
) -> Iterator[tuple[Job, Outcome]]:
    """Run batches on an engine; whatever ends this, the runs under way save and no other begins."""
    left = [list(batch) for batch in batches]
    with SeveralRuns(place.console) as views, stop_requests(catch=True) as stop:
        while left:
            watched = _Watched(left, place, views, watch)
            running = make_runs(
                watched.orders,
                place.folder,
                engine,
                stop=stop,
                hear=watched.hear,
                data_folder=place.data_folder,
                device=place.device,
            )
            left = []
            with closing(running) as made:
                for number, outcomes in made:
                    yield from watched.ended(number, outcomes)
                    stopped = watched.stopped(number, outcomes)
                    left += [stopped] if stopped else []


class _Watched:
    """Batches of jobs under way: shown, and abandoned if somebody finds them hopeless."""

    def __init__(
        self,
        batches: Sequence[Sequence[Job]],
        place: Workplace,
        views: SeveralRuns,
        watch: Watch | None,
    ) -> None:
        self.batches = batches
        self.orders = [[_order(job, place) for job in batch] for batch in batches]
        self.abandoned: dict[Job, Abandoned] = {}
        self._jobs = {_order(job, place).folder: job for batch in batches for job in batch}
        self._views = views
        self._watch = watch

    def ended(self, number: int, made: Sequence[Made]) -> Iterator[tuple[Job, Outcome]]:
        """The jobs of a batch that something came of, and what."""
        for job, outcome in zip(self.batches[number], made, strict=True):
            if isinstance(outcome, Result):
                write_result(outcome, job.result)
            if outcome is not None or job in self.abandoned:
                self._views.end(_label(job))
                yield job, self.abandoned[job] if outcome is None else outcome

    def stopped(self, number: int, made: Sequence[Made]) -> list[Job]:
        """Those that were stopped with another one of their batch, which was abandoned."""
        pairs = zip(self.batches[number], made, strict=True)
        return [job for job, outcome in pairs if outcome is None and job not in self.abandoned]

    def hear(self, order: Order, told: tuple[Any, ...]) -> bool:
        """Show what happens; is the job to be abandoned?"""
        job, (what, *about) = self._jobs[order.folder], told
        told_on(self._views.of(_label(job)), told)
        if self._watch is None or what not in ("epoch_ended", "measured"):
            return False
        if job in self.abandoned or not self._watch(job, *about):
            return False
        self.abandoned[job] = Abandoned(*about)
        return True


def _order(job: Job, place: Workplace) -> Order:
    return Order(job.recipe, _run_folder(job, place).name, _samples_folder(job, place).name)


def _label(job: Job) -> str:
    return job.result.stem


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


def seeded_results(recipe: Recipe, out: Path, name: str = "") -> list[Result]:
    """What such jobs have left, in the order of seeds."""
    paths = out.glob(f"{name or recipe.name}-seed*.json")
    results = [_result_of(recipe, path, any_seed=True) for path in paths]
    return sorted(results, key=lambda result: result.recipe.seed)


def _result_of(recipe: Recipe, path: Path, *, any_seed: bool = False) -> Result:
    """A result file of a recipe."""
    result = read_result(path)
    seed = result.recipe.seed if any_seed else recipe.seed
    if not result.recipe.is_same_run(recipe.model_copy(update={"seed": seed})):
        raise InputError(
            f"{path} was made by another version of recipe {recipe.name!r}; move it away or use "
            "another folder"
        )
    return result


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


def _run(job: Job, place: Workplace, watch: Watch | None) -> Outcome:
    with ExitStack() as views:
        told: list[Callback] = []
        if place.console is not None:
            told.append(views.enter_context(shown(place.console, _label(job), lines_every=60)))
        if watch is not None:
            told.append(Watcher(partial(watch, job)))
        try:
            result = run_recipe(
                job.recipe,
                _run_folder(job, place),
                samples_folder=_samples_folder(job, place),
                data_folder=place.data_folder,
                device=place.device,
                callback=Callbacks(*told),
            )
        except DivergedError as error:
            return error
        except AbandonedError as error:
            return error.outcome
    write_result(result, job.result)
    return result
