"""A run for a budget from the command line: trials, members chosen, a dense network, a verdict."""

from __future__ import annotations

import pytest

from sparsemble.ensemble.verdict import read_verdict
from sparsemble.learning.planning import Planner
from sparsemble.results.result import read_result


@pytest.mark.slow
@pytest.mark.usefixtures("short_plans")
def test_a_run_for_a_budget_is_judged_reported_and_resumed(command, tmp_path):
    folder = tmp_path / "budget"
    learn = ("learn", "digits", "--set", "network.hidden=[40, 20]", "--out", folder)
    code, said, told = command(*learn, "--budget", "flops=0.9,parameters=0.6")
    assert code == 0
    assert "settings for flops = 0.9, parameters = 0.6: learning rate" in told
    verdict = read_verdict(folder / "verdict.json")
    assert verdict is not None
    assert verdict.flops <= 0.9
    assert verdict.parameters <= 0.6
    assert set(verdict.differences) == {"error", "nll", "ece", "brier"}
    assert verdict.text in said
    result = read_result(folder / "result.json")
    dense = read_result(folder / "baseline" / "result.json")
    assert result.chosen is not None
    assert result.candidates[result.chosen].members == len(result.structures) == verdict.members
    assert dense.score["nll"] == pytest.approx(verdict.differences["nll"].other)
    assert dense.recipe.chain.epochs == result.recipe.chain.epochs

    code, _, told = command("resume", folder)
    assert code == 0
    assert "nothing is left to do" in told
    assert command("report", folder)[0] == 0
    page = (folder / "report.html").read_text()
    assert "Beside a dense network" in page
    assert "The promise is" in page


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("flops", "write KEY=VALUE"),
        ("flops=-1", "flops"),
        ("flop=1", "did you mean 'flops'"),
        ("flops=1,flops=2", "--budget flops=1,flops=2: one of these limits stands there twice"),
        ("flops=1e-6", "prune.flops = 1e-06 is too small"),
    ],
)
def test_a_budget_that_makes_no_sense_is_told_in_one_line(command, tmp_path, limits, message):
    code, _, told = command("learn", "digits", "--budget", limits, "--out", tmp_path / "run")
    assert code == 2
    assert message in told
    assert not (tmp_path / "run").exists()


def test_settings_that_trials_find_cannot_be_set_beside_a_budget(command, tmp_path):
    learn = ("learn", "digits", "--budget", "flops=1", "--out", tmp_path / "run")
    code, _, told = command(*learn, "--set", "prior.penalty=1e-3")
    assert code == 2
    assert "--set prior.penalty: for a budget that is found by trials; leave it out" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("short_plans")
def test_the_length_of_a_run_for_a_budget_can_be_set(command, tmp_path, monkeypatch):
    length = Planner._length
    monkeypatch.setattr(Planner, "_length", lambda self: self._epochs or length(self))
    learn = ("learn", "digits", "--set", "network.hidden=[40, 20]", "--baseline", "none")
    chosen = ("--set", "chain.epochs=3", "--budget", "flops=1", "--out", tmp_path / "run")
    assert command(*learn, *chosen)[0] == 0
    assert read_result(tmp_path / "run" / "result.json").recipe.chain.epochs == 3
