"""A run beside what it is compared with: dense networks trained by a worker, and the verdict."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from warnings import catch_warnings

import torch

from sparsemble.engines import Engine
from sparsemble.engines.places import remove_marks
from sparsemble.engines.processes import Processes
from sparsemble.engines.telling import told_on
from sparsemble.ensemble import Verdict, judge
from sparsemble.ensemble.verdict import read_verdict
from sparsemble.errors import DivergedError, InputError
from sparsemble.members import Member
from sparsemble.processes.interrupts import StopRequest
from sparsemble.progress.terminal import TerminalProgress
from sparsemble.recipes import Recipe
from sparsemble.recipes.baselines import is_dense, small_recipe
from sparsemble.results.orders import Made, Order, make_runs
from sparsemble.results.result import Result, known_result, read_result
from sparsemble.results.running import Ingredients, ingredients_of, run_recipe
from sparsemble.runs import RunFolder
from sparsemble.runs.opening import open_ensemble
from sparsemble.stages import Callback
from sparsemble.store import write_json
from sparsemble.team import agreed, is_first, team_here

if TYPE_CHECKING:
    from rich.console import Console

_LINES_EVERY = 60.0
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
        and (baseline is None or _known(run.baseline, baseline) is not None)
        and (recipe.baseline != "small" or _is_ended(RunFolder(run.small)))
    )


def _is_ended(run: RunFolder) -> bool:
    return run.result.is_file() or run.failure() is not None


def _known(folder: Path, recipe: Recipe) -> Result | DivergedError | None:
    """What came of a baseline, if it has been trained here to its end."""
    run = RunFolder(folder, code=recipe.code)
    reason = run.failure() if run.is_begun and run.recipe().is_same_run(recipe) else None
    return DivergedError(reason) if reason is not None else known_result(folder, recipe)


def run_compared(
    recipe: Recipe,
    baseline: Recipe | None,
    folder: Path,
    *,
    console: Console,
    data_folder: Path | None = None,
    device: str = "cpu",
    callback: Callback | None = None,
    engine: Engine | None = None,
) -> Compared:
    """Run a recipe and its baseline beside each other, each on half of the threads; judge.

    Args:
        recipe: What to run.
        baseline: What it is compared with, by `baseline_of`, if anything.
        folder: Of the run; what it is compared with has folders of its own inside.
        console: Where the baseline's progress is shown.
        data_folder: Where data sets lie.
        device: Where both are computed.
        callback: Told what happens in the recipe's run.
        engine: Where both are worked on, if not in this process and in one beside it.
    """
    around = _Surroundings(console, data_folder, device, callback, engine)
    run = RunFolder(folder, code=recipe.code)
    complete = is_first() and is_complete(recipe, baseline, folder)
    if is_first() and known_result(folder, recipe) is not None:
        run.check_data(ingredients_of(recipe, data_folder).fit().training.fingerprint())
    if baseline is None:
        own = around.run(recipe, folder)
        if is_first():
            with run.locked():
                # A run that was finished before knows that nothing is asked.
                run.claim(recipe, device=device)
        return Compared(own)
    both = _side_by_side if team_here() is None else _one_by_one
    own, beside = both(recipe, baseline, run, around)
    if isinstance(beside, DivergedError):
        console.print(f"nothing to compare with: {beside}", style="yellow", markup=False)
        return Compared(own)
    given = ingredients_of(recipe, data_folder)
    verdict = read_verdict(run.verdict) if complete else None
    if verdict is None and is_dense(baseline) and is_first():
        verdict = _verdict(given, own, beside, run, device)
    small = _small_beside(given, own, run, around) if recipe.baseline == "small" else None
    return Compared(own, beside, small, verdict)


@dataclass(frozen=True)
class _Surroundings:
    """Where runs find data and compute, and who hears of them."""

    console: Console
    data_folder: Path | None
    device: str
    callback: Callback | None
    engine: Engine | None

    def run(self, recipe: Recipe, folder: Path) -> Result:
        """What a recipe gives here."""
        return run_recipe(
            recipe,
            folder,
            data_folder=self.data_folder,
            device=self.device,
            callback=self.callback,
            engine=self.engine,
        )


def _side_by_side(
    recipe: Recipe, baseline: Recipe, run: RunFolder, around: _Surroundings
) -> tuple[Result, Result | DivergedError]:
    """What comes of a run and its baseline, at the same time if there are processors for both."""
    engine = around.engine
    threads = max(torch.get_num_threads() // 2, 1) if engine is None else 1
    with ExitStack() as ending:
        there = engine or ending.enter_context(Processes(1))
        other = _begun(recipe, baseline, run, around, threads)
        if other is not None:
            ending.enter_context(other)
            other.begin(there, threads)
            if engine is None and torch.get_num_threads() == 1:
                other.wait()
        own = around.run(recipe, run.path)
        if other is not None:
            other.wait()
    known = _known(run.baseline, baseline)
    return own, known or read_result(RunFolder(run.baseline).result, baseline.code)


def _one_by_one(
    recipe: Recipe, baseline: Recipe, run: RunFolder, around: _Surroundings
) -> tuple[Result, Result | DivergedError]:
    """The same by a team of processes, which work on everything together."""
    own = around.run(recipe, run.path)
    try:
        return own, around.run(baseline, run.baseline)
    except DivergedError as error:
        if is_first():
            RunFolder(run.baseline).save_failure(str(error))
        return own, error


class _Beside:
    """A baseline that is trained beside the run, on an engine; a thread waits for it.

    Whatever ends the block that it is in, it saves and ends.
    """

    def __init__(self, baseline: Recipe, run: RunFolder, around: _Surroundings) -> None:
        self._baseline = baseline
        self._around = around
        self._folder = run.baseline
        self._view = TerminalProgress(around.console, baseline.name, _LINES_EVERY, lines=True)
        self._stop = StopRequest()
        self._made: Made = None
        self._error: BaseException | None = None

    def begin(self, engine: Engine, threads: int) -> None:
        """Let it be trained."""
        self._thread = Thread(target=self._train, args=(engine, threads))
        self._thread.start()

    def _train(self, engine: Engine, threads: int) -> None:
        runs = make_runs(
            [[Order(self._baseline, self._folder.name)]],
            self._folder.parent,
            engine,
            stop=self._stop,
            hear=lambda _, told: told_on(self._view, told),
            data_folder=self._around.data_folder,
            device=self._around.device,
            threads=threads,
        )
        try:
            [(_, [self._made])] = runs
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Wait for it; if it diverged, that is no reason to lose the run."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        if isinstance(self._made, DivergedError):
            RunFolder(self._folder).save_failure(str(self._made))

    def __enter__(self) -> _Beside:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.stop_requested = True
        self._thread.join()


def _begun(
    recipe: Recipe,
    baseline: Recipe,
    run: RunFolder,
    around: _Surroundings,
    threads: int,
) -> _Beside | None:
    """The baseline, unless it is done; the run itself is claimed first."""
    beside = RunFolder(run.baseline)
    if not run.is_begun:
        for each in (recipe, baseline):  # before either is trained
            ingredients_of(each, around.data_folder).fit()
    elif run.recipe().is_same_run(recipe) and not _is_free(beside, baseline):
        raise InputError(
            f"{run.baseline} holds something else to compare with; delete it, or ask for what it is"
        )
    with run.locked():
        # So that resume finds it while the baseline is trained.
        run.claim(recipe, threads=threads, device=around.device)
        run.baseline.mkdir(exist_ok=True)
    if _known(run.baseline, baseline) is not None:
        remove_marks(run.path)  # of a run that was killed when it had just been trained
        return None
    with beside.locked():
        beside.claim(baseline, threads=threads, device=around.device)
    chain = baseline.chain
    what = "a network is" if chain.chains == 1 else f"{chain.chains} networks are"
    around.console.print(
        f"{what} trained beside it to compare with, for {chain.epochs} epochs; --baseline none "
        "leaves that out"
    )
    return _Beside(baseline, run, around)


def _is_free(folder: RunFolder, recipe: Recipe) -> bool:
    """Is there nothing but what the recipe left?"""
    return not folder.is_begun or folder.recipe().is_same_run(recipe)


def _small_beside(
    given: Ingredients, own: Result, run: RunFolder, around: _Surroundings
) -> Result | None:
    """What small dense networks give, if they give anything; why not is said, and kept."""
    small = RunFolder(run.small)
    reason = agreed(small.failure() if is_first() else None, team_here())
    recipe = _small(given, own) if reason is None else None
    if recipe is not None:
        try:
            return around.run(recipe, run.small)
        except DivergedError as error:
            reason = str(error)
    reason = reason or "even with one unit in every layer they cost more than the ensemble"
    if is_first():
        small.save_failure(reason)
    around.console.print(f"no small networks: {reason}", style="yellow", markup=False)
    return None


def _small(given: Ingredients, own: Result) -> Recipe | None:
    """Small dense networks, as many as there are members and of their cost together at most."""
    recipe, count = given.recipe, max(len(own.structures), 2)
    network = recipe.network
    assert network is not None

    def narrowed(share: float) -> Recipe:
        return small_recipe(recipe, network.narrowed(share), count)

    def is_affordable(share: float) -> bool:
        with catch_warnings(action="ignore"):  # of units that cannot go, which none has to
            fitted = replace(given, recipe=narrowed(share)).fit()
        return count * Member.dense(fitted.blank, fitted.layout).cost.flops <= own.flops

    low, high = 0.0, 1.0
    if not is_affordable(low):
        return None
    while high - low > _CLOSE:
        share = (low + high) / 2
        low, high = (share, high) if is_affordable(share) else (low, share)
    return narrowed(low)


def _verdict(
    given: Ingredients, own: Result, beside: Result, run: RunFolder, device: str
) -> Verdict:
    """The run's ensemble beside the first dense network; kept with the run."""
    part = given.split.measured.get("test") or next(iter(given.split.measured.values()))
    code = given.recipe.code
    seconds = sum(beside.seconds.values()) / len(beside.structures)
    verdict = judge(
        open_ensemble(run.path, code, device),
        open_ensemble(run.baseline, code, device)[:1],
        part.data,
        seconds=(sum(own.seconds.values()), seconds),
    )
    write_json(run.verdict, verdict.model_dump(mode="json"))
    return verdict
