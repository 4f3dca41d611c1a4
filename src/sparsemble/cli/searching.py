"""A search of a space as a command shows it: trials as they end, then the front."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from sparsemble.search.jobs import Workplace
    from sparsemble.search.space import SpaceSearch
    from sparsemble.search.trials import Trial


def show_exploration(plan: SpaceSearch, place: Workplace, out: Path, console: Console) -> None:
    """Run the trials and say what came of each; write and print what was found."""
    from sparsemble.errors import InterruptedRunError
    from sparsemble.search.drawing import front_file, search_page
    from sparsemble.search.exploring import explore, run_dense
    from sparsemble.search.front import Found, front_table, write_found
    from sparsemble.store import write_text

    trials: dict[int, Trial] = {}
    try:
        for trial in explore(plan, place):
            trials[trial.number] = trial
            console.print(f"trial {trial.number}, {_point(trial, plan)}: {_in_words(trial)}")
            found = Found(plan, tuple(trials[number] for number in sorted(trials)))
            if found.points:
                write_found(found, place, out)
        dense = run_dense(plan, place) if plan.dense else None
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped after {len(trials)} of {plan.trials} trials; the same command goes on"
        ) from None
    found = Found(plan, tuple(trials[number] for number in sorted(trials)), dense)
    console.print(front_table(found))
    write_found(found, place, out)
    picture, page = out.with_suffix(".svg"), out.with_suffix(".html")
    write_text(picture, front_file(found))
    write_text(page, search_page(found))
    console.print(f"saved in {out}; drawn in {picture}, and with all trials in {page}")


def _point(trial: Trial, plan: SpaceSearch) -> str:
    """What is tried."""
    values = ((key, trial.changes[key]) for key in plan.varied)
    return ", ".join(
        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values
    )


def _in_words(trial: Trial) -> str:
    """What came of a trial."""
    from sparsemble.search.search import in_words
    from sparsemble.search.trials import Unfinished

    if isinstance(trial.end, Unfinished):
        return f"{trial.end.kind}: {trial.end.reason}"
    result = trial.result
    assert result is not None, "only ended trials are shown"
    return f"{in_words(result)}, FLOPs {result.flops_ratio:.2f}×"
