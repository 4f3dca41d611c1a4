"""Tables on the command line: learn, resume, predict, evaluate, and how they fail."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsemble.cli.main import main
from sparsemble.ensemble import Ensemble
from sparsemble.runs import RunFolder

PEOPLE = Path(__file__).parents[2] / "examples" / "people.csv"
QUICK = [
    "digits",  # only its settings
    "--hidden=12",
    "--baseline=none",
    "--set=chain.chains=1",
    "--set=chain.epochs=4",
    "--set=chain.interval=2",
    "--set=chain.schedule.lr=0.05",
    "--set=retrain.epochs=1",
    "--set=retrain.schedule.lr=0.05",
]


def learned_in(folder, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["sparsemble", "learn", *QUICK, f"--out={folder}", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people") / "run"
    return learned_in(folder, f"--csv={PEOPLE}", "--target=income")


@pytest.fixture(scope="module")
def number_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hours") / "run"
    return learned_in(folder, f"--table={PEOPLE}", "--target=hours")


@pytest.mark.slow
@pytest.mark.usefixtures("short_plans")
def test_a_table_alone_is_enough(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("learn", "--csv", PEOPLE, "--target", "income", "--baseline", "none")
    code, out, said = command(*arguments)
    assert code == 0
    assert "income: to be predicted, 2 classes (high, low), because it holds texts" in said
    assert "age: a number, 12 values missing, filled in with 50" in said
    assert "192 rows to learn from, 48 to measure on" in said
    assert "settings for flops = 1.0" in said
    assert "income from 6 columns, as 14 inputs; left out: person, remark" in out
    recipe = RunFolder(tmp_path / "runs" / "people").recipe()
    assert recipe.name == "people"
    assert recipe.network.hidden == (64, 64)
    assert command(*arguments)[0] == 0
    code, _, said = command("learn", "--csv", PEOPLE, "--target", "hours")
    assert code == 2
    assert "runs/people holds another run: its data differs; use another folder" in said


def test_a_run_resumes_from_its_folder_and_the_table_named_again(
    run, command, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    before = (run / "ensemble" / "manifest.json").read_bytes()
    (run / "result.json").unlink()
    code, _, said = command("resume", run)
    assert code == 2
    assert f"reads files outside of it: if you mean these, say --read {PEOPLE}" in said
    code, out, _ = command("resume", run, "--read", PEOPLE)
    assert code == 0
    assert "saved in" in out
    assert (run / "ensemble" / "manifest.json").read_bytes() == before


def test_predict_names_classes_with_the_target_or_without(run, command, tmp_path):
    code, out, _ = command("predict", run, PEOPLE)
    lines = list(csv.DictReader(io.StringIO(out)))
    ensemble = Ensemble.load(run)
    expected = ensemble.predict_proba(pd.read_csv(PEOPLE))
    assert code == 0
    found = [[float(line["high"]), float(line["low"])] for line in lines]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert {line["prediction"] for line in lines} <= {"high", "low"}
    frame = pd.read_csv(PEOPLE).drop(columns=["income", "remark"])
    frame[frame.columns[::-1]].to_csv(tmp_path / "other.csv", index=False)
    assert command("predict", run, tmp_path / "other.csv")[1] == out
    frame.to_parquet(tmp_path / "other.parquet")
    assert command("predict", run, tmp_path / "other.parquet")[1] == out


def test_evaluate_measures_on_a_table(run, command):
    code, out, _ = command("evaluate", run, "--on", PEOPLE, "--json")
    expected = Ensemble.load(run).evaluate(pd.read_csv(PEOPLE))
    assert code == 0
    assert json.loads(out) == expected.model_dump(mode="json")


def test_numbers_have_intervals(number_run, command):
    code, out, _ = command("predict", number_run, PEOPLE)
    lines = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert list(lines[0]) == ["mean", "standard_deviation", "low_90", "high_90"]
    code, out, _ = command("evaluate", number_run, "--on", PEOPLE, "--json")
    assert json.loads(out)["count"] == 240


def test_figures_come_from_the_test_file(tmp_path, command):
    frame = pd.read_csv(PEOPLE)
    for name, part in (("a", frame[:90]), ("b", frame[90:200]), ("test", frame[200:])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--csv={tmp_path / name}.csv" for name in ("a", "b")]
    run = learned_in(tmp_path / "run", *files, "--target=income", f"--test={tmp_path}/test.csv")
    result = json.loads((run / "result.json").read_text())
    assert result["scores"]["test"]["count"] == 40
    score = Ensemble.load(run).evaluate(frame[200:])
    assert result["scores"]["test"]["curve"]["error"] == score.curve["error"]


def test_what_was_never_seen_is_refused_or_ignored(run, command, tmp_path):
    frame = pd.read_csv(PEOPLE).assign(region="mars")
    frame.to_csv(tmp_path / "mars.csv", index=False)
    code, out, said = command("predict", run, tmp_path / "mars.csv")
    assert (code, out) == (2, "")
    assert "column 'region': row 1 holds 'mars', which was not in the table" in said
    code, out, _ = command("predict", run, tmp_path / "mars.csv", "--unseen", "ignore")
    assert code == 0
    assert len(out.splitlines()) == 241
    assert command("evaluate", run, "--on", tmp_path / "mars.csv", "--unseen", "ignore")[0] == 0
    code, _, said = command("predict", run, PEOPLE, "--unseen", "maybe")
    assert code == 2
    assert "--unseen: unseen = 'maybe'" in said


def test_other_ensembles_know_nothing_of_what_is_unseen(class_run, text_run, command, tmp_path):
    (tmp_path / "t.txt").write_text("the cat\n")
    for folder, file in ((class_run, PEOPLE), (text_run, tmp_path / "t.txt")):
        code, _, said = command("predict", folder, file, "--unseen", "ignore")
        assert code == 2
        assert "unseen" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="age"), "column 'age' is missing (1 in all)"),
        (lambda t: t.rename(columns={"age": "Age"}), "is missing (1 in all); is it 'Age'?"),
        (lambda t: t.assign(more=1), "column 'more' was not in the table that was learned from"),
        (lambda t: t.assign(hours=["x", *t.hours[1:]]), "row 1 holds the text 'x' where numbers"),
        (lambda t: t.assign(since=7), "column 'since': holds numbers where dates are expected"),
        (lambda t: t.assign(owner="maybe"), "row 1 holds the text 'maybe' where true or false"),
        (lambda t: t[:0], "no rows"),
    ],
)
def test_a_table_that_does_not_fit_is_one_clear_line(run, command, tmp_path, change, message):
    change(pd.read_csv(PEOPLE)).to_csv(tmp_path / "bad.csv", index=False)
    code, out, said = command("predict", run, tmp_path / "bad.csv")
    assert (code, out) == (2, "")
    assert message in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["people.csv"], "people.csv is a table, not a recipe: sparsemble learn --csv people.csv"),
        ([], "nothing to learn: name a recipe"),
        (["--csv", "same.csv", "people.csv"], "people.csv: write --csv before every file"),
        (["--target", "income"], "--target is for a table"),
        (["digits", "--predict", "classes"], "--predict is for a table"),
        (["--csv", "people.csv"], "say which column is to be predicted (--target): person, age"),
        (["--csv", "people.csv", "--target", "incom"], "did you mean 'income'?"),
        (["--csv", "none.csv", "--target", "x"], "none.csv does not exist"),
        (["--csv", "people.csv", "--csv", "./people.csv", "--target", "x"], "would be read twice"),
        (
            ["--csv", "people.csv", "--test", "people.csv", "--target", "income"],
            "people.csv would be measured on as well: its rows would be known beforehand",
        ),
        (["--csv", "people.csv", "--target", "income", "--hidden", "x"], "--hidden x: write sizes"),
        (["--csv", "people.csv", "--target", "income", "--predict", "x"], "data.predict = 'x'"),
        (["--csv", "people.csv", "--target", "income", "--test", "t.csv"], "t.csv does not exist"),
        (["--csv", "people.csv", "--target", "income", "--predict", "numbers"], "the text 'low'"),
        (["--csv", "people.csv", "--target", "remark"], "are no classes that could be learned"),
        (["--csv", "same.csv", "--target", "y"], "'y': is 'a' in all rows: there is nothing"),
        (["--csv", "text.csv", "--target", "y"], "holds numbers, but for 'unknown' in row 8"),
        (
            ["--csv", "people.csv", "--csv", "same.csv", "--target", "y"],
            "same.csv: column 'person'",
        ),
        (
            ["--csv", "people.csv", "--target", "income", "--set", "data.numbers=['region']"],
            "column 'region': row 1 holds the text 'south' where numbers are expected",
        ),
    ],
)
def test_what_cannot_be_learned_is_one_clear_line_and_nothing_is_left_behind(
    arguments, message, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_bytes(PEOPLE.read_bytes())
    (tmp_path / "same.csv").write_text("x,y\n1.5,a\n2.5,a\n")
    rows = [f"{'unknown' if k == 7 else k % 30 + 0.5},{'ab'[k % 2]}" for k in range(90)]
    (tmp_path / "text.csv").write_text("\n".join(["x,y", *rows]))
    before = sorted(tmp_path.iterdir())
    code, out, said = command("learn", *arguments)
    assert (code, out) == (2, "")
    assert message in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before
