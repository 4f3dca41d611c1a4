"""Runs merged by the command: what is kept for a budget, on which data, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from scenarios import CLASSES
from sparsemble.data import Dataset, digits
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.errors import InputError
from sparsemble.recipes import load_recipe
from sparsemble.results.merging import merge_runs
from sparsemble.results.running import run_recipe

ASIDE = {"data.validation": 300, "chain.epochs": 9}
"""Two members for every run, and examples that none of them has seen."""


def run(folder: Path, seed: int, **changes) -> Path:
    run_recipe(load_recipe("digits", {**CLASSES, **ASIDE, "seed": seed, **changes}), folder)
    return folder


def aside() -> Dataset:
    """What these runs set aside, found without the code that is tested."""
    return digits()[0].split(300)[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("merged")
    return [run(folder / name, seed) for seed, name in enumerate("ab")]


def test_the_command_keeps_the_best_members_for_a_budget_and_says_which(runs, command, tmp_path):
    out = tmp_path / "both"
    single = max(Ensemble.load(own)[:1].cost.flops_ratio for own in runs)
    limit = 2.2 * single
    arguments = ("merge", *runs, "--out", out, "--budget", f"flops={limit}")
    code, said, _ = command(*arguments, "--json")
    answer = json.loads(said)
    merged = Ensemble.load(out)
    assert code == 0
    assert merged.cost.flops_ratio <= limit
    assert sum(map(len, answer["kept"].values())) == len(merged)
    *_, kept = answer["rows"]
    singles = [nll for own in runs for nll in Ensemble.load(own).evaluate(aside()).members["nll"]]
    assert merged.evaluate(aside())["nll"] <= min(singles)
    assert float(kept["NLL"]) == pytest.approx(merged.evaluate(aside())["nll"], abs=1e-4)
    _, said, _ = command(*arguments)
    assert "300 training examples of digits held out for validation" in said
    assert "kept" in said


def test_without_a_budget_all_members_are_kept_in_the_order_of_runs(runs, command, tmp_path):
    code, said, _ = command("merge", *runs, "--out", tmp_path / "all")
    merged = Ensemble.load(tmp_path / "all")
    own = [Ensemble.load(run) for run in runs]
    rows = aside().inputs
    assert code == 0
    assert said.count("kept all 2 members") == 2
    assert len(merged) == 4
    by_hand = sum(each.predict_proba(rows) for each in own) / 2
    assert merged.predict_proba(rows) == pytest.approx(by_hand, abs=1e-6)


def test_what_was_not_set_aside_for_all_is_not_chosen_by(runs, class_run, tmp_path):
    budget = Budget(flops=1.0)
    copy = Path(shutil.copytree(class_run, tmp_path / "copy"))
    with pytest.raises(InputError, match="set nothing aside: its members saw all training data"):
        merge_runs([class_run, copy], budget)
    with pytest.raises(InputError, match="has other data than"):
        merge_runs([runs[0], class_run], budget)
    with pytest.raises(InputError, match="is no run: it does not say what its members saw"):
        merge_runs([runs[0], runs[1] / "ensemble"], budget)
    assert merge_runs([class_run, copy]).held is None  # nothing is chosen


@pytest.mark.slow
def test_runs_that_set_aside_by_their_seeds_have_seen_each_others_examples(tmp_path):
    quick = {
        "chain.epochs": 2,
        "chain.burn_in": 0,
        "chain.interval": 1,
        "retrain.epochs": 1,
        "prune.steps": 1,
        "network.hidden": [12],
    }
    made = []
    for seed in (0, 1, 0):
        made.append(tmp_path / f"run-{len(made)}")
        changes = {**quick, "seed": seed, "retrain.targets": 0.5 if len(made) < 3 else 0.0}
        run_recipe(load_recipe("digits-budget", changes), made[-1])
    with pytest.raises(InputError, match=r"set other examples aside than .* its seed"):
        merge_runs(made[:2], Budget(flops=1.0))
    same = merge_runs([made[0], made[2]], Budget(flops=1.0))
    assert same.held.count == 180  # a fifth of all, as learn sets aside
    assert same.ensemble.cost.flops_ratio <= 1.0


def test_members_for_a_text_are_chosen_by_its_validation_part(text_run, tmp_path):
    copy = Path(shutil.copytree(text_run, tmp_path / "copy"))
    found = merge_runs([text_run, copy], Budget(flops=2.0))
    assert "validation" in found.held.name
    assert len({number % 3 for number in found.kept}) == len(found.kept)  # no copy would help


def test_data_can_be_named_to_choose_by(runs, tmp_path):
    _, test = digits()
    lines = [",".join([*test.feature_names, "label"])]
    for row, target in zip(test.inputs[:50], test.targets[:50], strict=True):
        lines.append(",".join([*(f"{value:g}" for value in row.tolist()), str(int(target))]))
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    both = [runs[0], runs[1] / "ensemble"]
    named = merge_runs(both, Budget(flops=1.0), on=str(tmp_path / "rows.csv"))
    assert named.ensemble.evaluate(named.held).count == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "give two runs or more"),
        (["a", "a"], "stands there twice"),
        (["a", "missing"], "missing is not a folder with a saved ensemble"),
        (["a", "b", "--budget", "flops=0.001"], "no member is within the budget"),
        (["a", "b", "--budget", "latency=1"], "select members by flops"),
        (["a", "b", "--out", "a"], "holds a run and its own ensemble"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments, message, runs, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(runs[0].parent)
    out = [] if "--out" in arguments else ["--out", tmp_path / "out"]
    code, _, said = command("merge", *arguments, *out)
    assert code == 2
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
