"""The stages of a run that tried several numbers of members: what inspect and the report show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparsemble.recipes import load_recipe
from sparsemble.reports.measures.traces import stage_traces
from sparsemble.reports.opening import FinishedRun, open_run
from sparsemble.results import run_recipe
from sparsemble.results.inspection import inspect_run

pytestmark = pytest.mark.slow
QUICK = {
    "chain.epochs": 8,
    "chain.burn_in": 4,
    "chain.interval": 2,
    "chain.chains": 1,
    "prune.steps": 2,
    "retrain.epochs": 3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "budget"
    run_recipe(load_recipe("digits-budget", QUICK), path)
    return path


@pytest.fixture
def run(folder: Path) -> FinishedRun:
    return open_run(folder)


def test_every_stage_is_inspected(folder: Path, run: FinishedRun) -> None:
    view = inspect_run(folder)
    assert view is not None
    tried = {candidate.members for candidate in run.result.candidates}
    assert tried == {1, 2}
    assert view.epochs == {
        "chain": 8,
        "members-1-prune-1": 1,
        "members-1-retrain": 3,
        "members-2-prune-1": 1,
        "members-2-retrain": 3,
    }
    assert (
        "3 of one network, retraining; 1 of 2 members, training after round 1" in view.lines()[-1]
    )


@pytest.mark.parametrize("number", range(4))
def test_the_report_shows_how_those_chosen_were_retrained(run: FinishedRun, number: int) -> None:
    run = replace(run, result=run.result.model_copy(update={"chosen": number}))
    chosen = run.result.candidates[number]
    chain, *after = stage_traces(run)
    assert (chain.stage, chain.chains[0].epochs) == ("chain", tuple(range(1, 9)))
    assert [trace.stage for trace in after] == ["retrain"] * chosen.retrained
    if after:
        history = run.folder.stage(f"members-{chosen.members}-retrain").history()
        assert after[0].chains[0].loss == tuple(r.loss for r in history.epochs if r.chain == 0)
