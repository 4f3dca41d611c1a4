"""Trials as Optuna knows them, and which points it would try next.

Optuna keeps nothing: its study is made anew of the trials whenever points are asked for, with a
sampler whose seed follows from that of the search and the number of trials. So the same trials are
followed by the same points, whether or not the search was stopped in between.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparsemble.errors import InputError
from sparsemble.results import Result
from sparsemble.search.objectives import value_of
from sparsemble.search.space import Range, SpaceSearch
from sparsemble.search.trials import Trial, Unfinished
from sparsemble.seeds import derive

if TYPE_CHECKING:
    from optuna import Study

_AT_RANDOM = 4, 10
"""Trials at random before those that follow from others: a third of all, within these limits."""
_STEPS = 100
"""Into how many steps Optuna sees a run divided."""


def next_points(search: SpaceSearch, trials: Sequence[Trial], count: int) -> list[dict[str, Any]]:
    """So many points to try, after trials that have all ended.

    Args:
        search: Says what is tried.
        trials: What came of it so far.
        count: How many are tried at a time; each keeps away from the others.
    """
    with _quietly() as optuna:
        study = study_of(search, trials)
        study.sampler = optuna.samplers.TPESampler(
            n_startup_trials=min(max(search.trials // 3, _AT_RANDOM[0]), _AT_RANDOM[1]),
            seed=derive(search.seed, "trial", len(trials)) % 2**32,
            constant_liar=True,
        )
        asked = [study.ask(_distributions(search)) for _ in range(count)]
    return [_changes(search, trial.params) for trial in asked]


def study_of(search: SpaceSearch, trials: Sequence[Trial]) -> Study:
    """The trials as an Optuna study, for its importances and plots; all objectives are minimised.

    Args:
        search: Says what is tried.
        trials: Those that have no end yet are left out.
    """
    with _quietly() as optuna:
        study: Study = optuna.create_study(directions=["minimize"] * len(search.objectives))
        distributions = _distributions(search)
        for trial in trials:
            if trial.end is None:
                continue
            study.add_trial(
                optuna.trial.create_trial(
                    params=_params(search, trial.changes),
                    distributions=distributions,
                    **_end(search, trial.end, optuna.trial.TrialState),
                )
            )
    return study


def _end(search: SpaceSearch, end: Result | Unfinished, states: Any) -> dict[str, Any]:
    """What came of a trial; what was not finished is worse than all that was."""
    if isinstance(end, Result):
        values = [value_of(objective, end) for objective in search.objectives]
        return {"state": states.COMPLETE, "values": values}
    if end.share is None or end.figure is None:
        return {"state": states.PRUNED}
    return {
        "state": states.PRUNED,
        "intermediate_values": {round(_STEPS * end.share): end.figure},
    }


def _distributions(search: SpaceSearch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    kinds = _optuna().distributions
    for key, dimension in search.space.items():
        if not isinstance(dimension, Range):
            found[key] = kinds.CategoricalDistribution([_label(value) for value in dimension])
        elif dimension.is_whole:
            found[key] = kinds.IntDistribution(dimension.low, dimension.high, log=dimension.log)
        else:
            found[key] = kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.log)
    return found


def _label(choice: Any) -> str:
    """A choice as Optuna takes it, which knows no lists."""
    return choice if isinstance(choice, str) else json.dumps(choice)


def _changes(search: SpaceSearch, params: dict[str, Any]) -> dict[str, Any]:
    """A point as a recipe takes it."""
    return {
        key: params[key]
        if isinstance(dimension, Range)
        else next(choice for choice in dimension if _label(choice) == params[key])
        for key, dimension in search.space.items()
    }


def _params(search: SpaceSearch, changes: dict[str, Any]) -> dict[str, Any]:
    """The same as Optuna takes it."""
    return {
        key: changes[key] if isinstance(dimension, Range) else _label(changes[key])
        for key, dimension in search.space.items()
    }


@contextmanager
def _quietly() -> Iterator[Any]:
    """Optuna without its log of every study, and without warnings that its interface may change."""
    optuna = _optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield optuna
    finally:
        optuna.logging.set_verbosity(before)


def _optuna() -> Any:
    try:
        return import_module("optuna")
    except ImportError:
        raise InputError(
            "a search of a [space] needs optuna, which is not installed: pip install "
            "'sparsemble[search]'; a [grid] needs nothing"
        ) from None
