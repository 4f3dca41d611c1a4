"""A search of a space: trials asked for, run, and their outcomes told, round by round.

A round has as many trials as run at a time. What is asked for follows from the rounds before it,
so that the same seed gives the same trials, whichever of them ends first.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparsemble.errors import DivergedError, InputError
from sparsemble.recipes import Recipe
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.results import Result
from sparsemble.results.running import ingredients_of
from sparsemble.search.hopeless import is_hopeless, share_of
from sparsemble.search.jobs import Job, Outcome, Watch, Workplace, chain_key, outcomes
from sparsemble.search.space import SpaceSearch
from sparsemble.search.study import next_points
from sparsemble.search.trials import Ledger, Trial, Unfinished, finished
from sparsemble.search.watching import Abandoned
from sparsemble.stages import EpochRecord, SampleRecord


def explore(search: SpaceSearch, place: Workplace) -> Iterator[Trial]:
    """Run every trial, resuming those that were stopped; yield each as it ends.

    Args:
        search: Says what is tried.
        place: Where, and how many at a time.
    """
    search.check()
    _check_fits(search.base(search.fixed | search.measured_on_validation()), place)
    ledger = Ledger(search, place.folder)
    yield from [trial for trial in ledger.trials if trial.end is not None]
    while True:
        yield from _ended(ledger, place, _watch(search, ledger))
        left = search.trials - len(ledger.trials)
        if left <= 0:
            return
        ledger.add(next_points(search, ledger.trials, min(left, place.size)))


def run_dense(search: SpaceSearch, place: Workplace) -> Result | None:
    """One dense network, trained as the recipe would be; `None` if it diverged."""
    recipe = dense_recipe(search.base(search.fixed | search.measured_on_validation()))
    job = Job(recipe, place.folder / f"dense-{recipe.seed}-{chain_key(recipe)}.json")
    [(_, outcome)] = outcomes([job], place)
    return outcome if isinstance(outcome, Result) else None


def _ended(ledger: Ledger, place: Workplace, watch: Watch | None) -> Iterator[Trial]:
    """Run all that are waiting and can be run; several trials of one point are one job."""
    waiting: dict[Job, list[Trial]] = {}
    for trial in ledger.waiting:
        try:
            job = ledger.job(trial)
            if not job.result.exists():
                _check_fits(job.recipe, place)
        except InputError as error:
            yield ledger.end(trial, Unfinished(kind="refused", reason=str(error)))
        else:
            waiting.setdefault(job, []).append(trial)
    for job, outcome in outcomes(list(waiting), place, watch):
        for trial in waiting[job]:
            yield ledger.end(trial, _end(outcome, job.recipe))


def _check_fits(recipe: Recipe, place: Workplace) -> None:
    """Refuse a recipe that does not go together with its data and network."""
    ingredients_of(recipe, place.data_folder).fit()


def _end(outcome: Outcome, recipe: Recipe) -> Result | Unfinished:
    if isinstance(outcome, DivergedError):
        return Unfinished(kind="diverged", reason=str(outcome))
    if not isinstance(outcome, Abandoned):
        return outcome
    record = outcome.record
    assert isinstance(record, SampleRecord), "nothing else is found hopeless"
    return Unfinished(
        kind="abandoned",
        reason=f"{record.metric} {record.together:.4g} with {record.members} samples, worse than "
        "most others had",
        share=share_of(record, recipe),
        figure=record.together,
    )


def _watch(search: SpaceSearch, ledger: Ledger) -> Watch | None:
    """Abandons hopeless trials, if quality is all that counts: a poor one may be a cheap one."""
    if search.costs:
        return None

    # Those of earlier rounds: what ends first in this one decides nothing.
    results = [result for _, result in finished(ledger.trials)]

    def watch(job: Job, record: EpochRecord | SampleRecord) -> bool:
        return is_hopeless(record, job.recipe, results)

    return watch
