"""A run beside what it is compared with: dense networks trained by a worker, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from sparsemble.ensemble import Verdict, judge
from sparsemble.errors import DivergedError, InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member
from sparsemble.processes.workers import Worker
from sparsemble.recipes import Recipe
from sparsemble.recipes.baselines import is_dense, small_recipe
from sparsemble.recipes.networks import NetworkSettings
from sparsemble.results.result import Result, known_result, read_result
from sparsemble.results.running import Ingredients, ingredients_of, run_recipe
from sparsemble.runs import RunFolder
from sparsemble.runs.opening import open_ensemble
from sparsemble.stages import Callback
from sparsemble.store import write_json

if TYPE_CHECKING:
    from rich.console import Console

_CLOSE = 1e-3
"""How closely a share of units is looked for."""


@dataclass(frozen=True)
class Compared:
    """What a run gave, beside dense networks if it was compared with any."""

    own: Result
    baseline: Result | None = None
    small: Result | None = None
    verdict: Verdict | None = None

    @property
    def results(self) -> list[Result]:
        """All of them, the run's own last."""
        found = (self.baseline, self.small, self.own)
        return [result for result in found if result is not None]


def is_complete(recipe: Recipe, baseline: Recipe | None, folder: Path) -> bool:
    """Has a run been finished, with everything that it is compared with?"""
    run = RunFolder(folder)
    return (
        known_result(folder, recipe) is not None
        and (baseline is None or known_result(run.baseline, baseline) is not None)
        and (recipe.baseline != "small" or RunFolder(run.small).result.is_file())
    )


def run_compared(
    recipe: Recipe,
    baseline: Recipe | None,
    folder: Path,
    *,
    console: Console,
    data_folder: Path | None = None,
    callback: Callback | None = None,
) -> Compared:
    """Run a recipe and its baseline beside each other, each on half of the threads; judge.

    Args:
        recipe: What to run.
        baseline: What it is compared with, by `baseline_of`, if anything.
        folder: Of the run; what it is compared with has folders of its own inside.
        console: Where the baseline's progress is shown.
        data_folder: Where data sets lie.
        callback: Told what happens in the recipe's run.
    """
    run = RunFolder(folder, code=recipe.code)
    if baseline is None:
        own = run_recipe(recipe, folder, data_folder=data_folder, callback=callback)
        with run.locked():
            run.claim(recipe)  # a run that was finished before now knows that nothing is asked
        return Compared(own)
    worker = _begun(recipe, baseline, run, console, data_folder)
    diverged = None
    try:
        if worker is not None and torch.get_num_threads() == 1:
            diverged = _waited(worker)  # there is no processor for both
            worker = None
        own = run_recipe(recipe, folder, data_folder=data_folder, callback=callback)
        if worker is not None:
            diverged = _waited(worker)
    except BaseException:
        if worker is not None:
            worker.stop()
            worker.join()
        raise
    if diverged is not None:
        console.print(f"nothing to compare with: {diverged}", style="yellow", markup=False)
        return Compared(own)
    given = ingredients_of(recipe, data_folder)
    beside = read_result(RunFolder(run.baseline).result, baseline.code)
    verdict = _verdict(given, own, beside, run) if is_dense(baseline) else None
    small = None
    if recipe.baseline == "small":
        try:
            small = run_recipe(
                _small(given, own), run.small, data_folder=data_folder, callback=callback
            )
        except DivergedError as error:
            console.print(f"no small networks: {error}", style="yellow", markup=False)
    return Compared(own, beside, small, verdict)


def _begun(
    recipe: Recipe, baseline: Recipe, run: RunFolder, console: Console, data_folder: Path | None
) -> Worker | None:
    """A worker that trains the baseline, unless that is done; the run itself is claimed first."""
    half = max(torch.get_num_threads() // 2, 1)
    beside = RunFolder(run.baseline)
    if not run.is_begun:
        for each in (recipe, baseline):  # before either is trained
            ingredients_of(each, data_folder).fit()
    elif run.recipe().is_same_run(recipe) and not _is_free(beside, baseline):
        raise InputError(
            f"{run.baseline} holds something else to compare with; delete it, or ask for what it is"
        )
    with run.locked():
        run.claim(recipe, threads=half)  # so that resume finds it while the baseline is trained
        run.baseline.mkdir(exist_ok=True)
    if known_result(run.baseline, baseline) is not None:
        return None
    with beside.locked():
        beside.claim(baseline, threads=half)
    chain = baseline.chain
    what = "a network is" if chain.chains == 1 else f"{chain.chains} networks are"
    console.print(
        f"{what} trained beside it to compare with, for {chain.epochs} epochs; --baseline none "
        "leaves that out"
    )
    return Worker(run.baseline, data_folder=data_folder, code=baseline.code, console=console)


def _is_free(folder: RunFolder, recipe: Recipe) -> bool:
    """Is there nothing but what the recipe left?"""
    return not folder.is_begun or folder.recipe().is_same_run(recipe)


def _waited(worker: Worker) -> DivergedError | None:
    """Wait for a baseline; if it diverged, that is no reason to lose the run."""
    try:
        worker.wait()
    except DivergedError as error:
        return error
    return None


def _small(given: Ingredients, own: Result) -> Recipe:
    """Small dense networks, as many as there are members and of their cost together."""
    recipe, count = given.recipe, max(len(own.structures), 2)
    network = recipe.network
    assert network is not None
    low, high = 0.0, 1.0
    while high - low > _CLOSE:
        share = (low + high) / 2
        flops = count * _flops(given, network.narrowed(share))
        low, high = (share, high) if flops <= own.flops else (low, share)
    return small_recipe(recipe, network.narrowed(low), count)


def _flops(given: Ingredients, network: NetworkSettings) -> int:
    """What a prediction by a dense network takes."""
    built = network.build(*given.task.sizes)
    return Member.dense(built, layout_of(built)).cost.flops


def _verdict(given: Ingredients, own: Result, beside: Result, run: RunFolder) -> Verdict:
    """The run's ensemble beside the first dense network; kept with the run."""
    part = given.split.measured.get("test") or next(iter(given.split.measured.values()))
    code = given.recipe.code
    seconds = sum(beside.seconds.values()) / len(beside.structures)
    verdict = judge(
        open_ensemble(run.path, code),
        open_ensemble(run.baseline, code)[:1],
        part.data,
        seconds=(sum(own.seconds.values()), seconds),
    )
    write_json(run.verdict, verdict.model_dump(mode="json"))
    return verdict
