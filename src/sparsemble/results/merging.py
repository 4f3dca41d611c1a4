"""Runs merged into one ensemble, whose members are chosen on validation data for a budget.

The data are those that the runs' own recipe sets aside: the test set is never looked at. If each
run sets aside other examples, its members have seen those of the others, and none may be used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsemble.data.split import Part
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.ensemble.merging import merged
from sparsemble.ensemble.selection import selected
from sparsemble.errors import InputError
from sparsemble.learning.fitting import held_out
from sparsemble.recipes import Recipe
from sparsemble.recipes.trust import check_named
from sparsemble.results.running import ingredients_of
from sparsemble.results.tables import Table
from sparsemble.runs import RunFolder
from sparsemble.runs.folder import is_run
from sparsemble.runs.opening import open_ensemble
from sparsemble.tasks import Evaluation, Metric


@dataclass(frozen=True)
class Merged:
    """The runs' ensembles by name, all members together, and the numbers of those that were kept.

    Those that helped most come first. `held` is what they were chosen on, if there is such.
    """

    runs: dict[str, Ensemble]
    everything: Ensemble
    kept: list[int]
    held: Evaluation | None

    @property
    def ensemble(self) -> Ensemble:
        """The members that were kept."""
        return Ensemble([self.everything[number] for number in self.kept], self.everything.task)

    @property
    def origins(self) -> dict[str, list[int]]:
        """Of every run, the numbers of its members that were kept."""
        known = [(name, k) for name, own in self.runs.items() for k in range(len(own))]
        kept = [known[number] for number in self.kept]
        return {name: sorted(k for own, k in kept if own == name) for name in self.runs}

    def table(self) -> Table:
        """Every run, all members and those that were kept: costs and, if known, validation."""
        rows = {**self.runs, "all members": self.everything}
        if len(self.kept) < len(self.everything):
            rows["kept"] = self.ensemble
        metrics = [metric for metric in self.everything.task.metrics if metric.shown]
        titles = [metric.title for metric in metrics] if self.held is not None else []
        where = "" if self.held is None else f", on {self.held.name}"
        return Table(
            f"Merged{where}",
            ("", "Members", *titles, "Parameters", "FLOPs"),
            tuple(self._row(name, own, metrics) for name, own in rows.items()),
        )

    def _row(self, name: str, ensemble: Ensemble, metrics: Sequence[Metric]) -> tuple[str, ...]:
        figures: list[str] = []
        if self.held is not None:
            score = ensemble.evaluate(self.held)
            figures = [metric.text(score[metric.key]) for metric in metrics]
        cost = ensemble.cost
        costs = (f"{cost.parameters_ratio:.2f}×", f"{cost.flops_ratio:.2f}×")
        return (name, str(len(ensemble)), *figures, *costs)


def merge_runs(
    runs: Sequence[Path],
    budget: Budget | None = None,
    *,
    on: str | None = None,
    data_folder: Path | None = None,
    code: Sequence[str] = (),
    files: Sequence[Path] = (),
) -> Merged:
    """The members of several runs, or those of them that do best within a budget.

    Args:
        runs: Folders of finished runs, or saved ensembles.
        budget: What the members may cost together; without one all are kept.
        on: A file, or the name of a data set with a validation part, to choose by; by default what
            the runs set aside.
        data_folder: Where data sets lie.
        code: The user's own functions that recipes may call.
        files: Files, or folders that hold them, which recipes may read data from.
    """
    _check_different(runs)
    opened = {str(run): open_ensemble(run, code) for run in runs}
    everything = merged(list(opened.values()), list(opened))
    try:
        held = _held(everything, runs, on, data_folder, code, files)
    except _NothingAsideError:
        if budget is not None:
            raise
        held = None
    kept = list(range(len(everything)))
    if budget is not None:
        kept = selected(everything, held, budget)
    return Merged(opened, everything, kept, held)


class _NothingAsideError(InputError):
    """There are no data that no member has seen."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; name validation data to choose members by: --on FILE")


def _check_different(runs: Sequence[Path]) -> None:
    if len(runs) < 2:
        raise InputError("there is nothing to merge: give two runs or more")
    places = [run.resolve() for run in runs]
    for run, place in zip(runs, places, strict=True):
        if places.count(place) > 1:
            raise InputError(f"{run} stands there twice")


def _held(
    ensemble: Ensemble,
    runs: Sequence[Path],
    on: str | None,
    data_folder: Path | None,
    code: Sequence[str],
    files: Sequence[Path],
) -> Evaluation:
    """The data that members are chosen by: those named, or what all runs set aside."""
    if on is not None:
        return ensemble.task.evaluation_from(on, "validation", data_folder)
    for run in runs:
        if not is_run(run):
            raise _NothingAsideError(f"{run} is no run: it does not say what its members saw")
    recipes = {run: RunFolder(run, code=code).recipe() for run in runs}
    for run, recipe in recipes.items():
        check_named(recipe, str(run), code=code, files=files)
    aside = _set_aside(recipes, data_folder)
    return ensemble.task.evaluation(aside.data, aside.name)


def _set_aside(recipes: Mapping[Path, Recipe], data_folder: Path | None) -> Part:
    """What none of the runs was trained on: the validation part of their data, or their own."""
    (first, known), *others = recipes.items()
    for run, recipe in others:
        if recipe.data != known.data:
            raise _NothingAsideError(f"{run} has other data than {first}")
    for run, recipe in recipes.items():
        fitted = ingredients_of(recipe, data_folder).fit()
        RunFolder(run, code=recipe.code).check_data(fitted.training.fingerprint())
    given = ingredients_of(known, data_folder)
    if "validation" in given.split.measured:
        return given.split.measured["validation"]
    for run, recipe in recipes.items():
        if not recipe.choose:
            raise _NothingAsideError(f"{run} set nothing aside: its members saw all training data")
        if recipe.seed != known.seed:
            raise _NothingAsideError(
                f"{run} set other examples aside than {first}, as its seed is another, and members "
                "of one saw those of the other (data.validation sets the same aside for all)"
            )
    _, validation = held_out(given.task, given.split.train, None, known.seed)
    return Part(validation, "training examples that the runs set aside")
