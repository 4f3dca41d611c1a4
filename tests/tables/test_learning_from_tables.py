"""From a table to an ensemble that takes the same table again, by the names of its columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import sparsemble
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.store import read_json, write_json

PEOPLE = Path(__file__).parents[2] / "examples" / "people.csv"
QUICK = {
    "chain.chains": 1,
    "chain.epochs": 4,
    "chain.interval": 2,
    "chain.schedule.lr": 0.05,
    "retrain.epochs": 1,
    "retrain.schedule.lr": 0.05,
}


def learned_from(data, outputs):
    torch.manual_seed(0)
    network = sparsemble.feedforward(len(data.feature_names), [12], outputs)
    recipe = sparsemble.load_recipe("digits", QUICK)
    return sparsemble.learn(network, data, recipe).ensemble


@pytest.fixture(scope="module")
def frame():
    return pd.read_csv(PEOPLE)


@pytest.fixture(scope="module")
def parts(frame):
    return sparsemble.table(frame, target="income").parts(test=0.25)


@pytest.fixture(scope="module")
def classes(parts):
    return learned_from(parts[0], 2)


@pytest.fixture(scope="module")
def numbers(frame):
    return learned_from(sparsemble.table(frame, target="hours"), 1)


def test_the_encoding_is_part_of_the_ensemble(classes, parts):
    assert classes.task.columns == parts[0].columns
    assert classes.task.class_names == ("high", "low")
    assert classes.task.scaling.same_as(parts[0].scaling)


@pytest.mark.parametrize("learned", ["classes", "numbers"])
def test_saved_and_loaded_it_predicts_the_same_table_alike(learned, frame, tmp_path, request):
    ensemble = request.getfixturevalue(learned)
    ensemble.save(tmp_path)
    again = Ensemble.load(tmp_path)
    assert again.task == ensemble.task
    np.testing.assert_array_equal(again.evidence(frame), ensemble.evidence(frame))
    assert again.evaluate(frame) == ensemble.evaluate(frame)


@pytest.mark.parametrize(
    "other",
    [
        lambda frame: frame[frame.columns[::-1]],
        lambda frame: frame.drop(columns=["income"]),
        lambda frame: frame.drop(columns=["remark", "person"]),
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda frame: (
            {name: frame[name].to_numpy() for name in frame if name != "region"}
            | {"region": pa.array(frame.region)}
        ),
    ],
    ids=["other order", "no target", "nothing that was left out", "polars", "Arrow", "dict"],
)
def test_columns_are_matched_by_name_wherever_they_stand(classes, frame, other):
    expected = classes.predict_proba(frame)
    np.testing.assert_array_equal(classes.predict_proba(other(frame)), expected)


def test_what_was_predicted_from_the_file_is_what_the_network_was_trained_on(classes, parts, frame):
    rows = torch.cat([part.inputs for part in parts])
    known = classes.predict_proba(rows, parts[0].feature_names)
    found = classes.predict_proba(frame)
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(known, axis=0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="age"), "the inputs: column 'age' is missing"),
        (lambda frame: frame.assign(x=1), "column 'x' was not in the table that was learned from"),
        (lambda frame: frame.assign(hours="long"), "'hours': row 1 holds the text 'long' where"),
        (lambda frame: frame.assign(region="mars"), "row 1 holds 'mars', which was not in"),
        (lambda frame: frame.assign(schooling=3), "row 1 holds '3', which was not in"),
        (lambda frame: frame.assign(since="soon"), "the text 'soon' where dates are expected"),
        (
            lambda frame: frame.assign(hours=None),
            "row 1 holds no value (240 rows of 240 read)",
        ),
        (lambda frame: frame.assign(hours=np.inf), "'hours': row 1 holds infinity"),
        (lambda frame: np.zeros((3, 14)), "columns are matched by name: give a table"),
        (lambda frame: torch.zeros(3, 14), "columns are matched by name: give a table"),
    ],
)
def test_what_does_not_fit_is_refused_by_predict(classes, frame, change, message):
    with pytest.raises(InputError) as error:
        classes.predict(change(frame))
    assert message in str(error.value)


def test_evaluate_takes_the_table_the_parts_or_a_pair(classes, parts, frame):
    whole = classes.evaluate(frame)
    assert whole.count == 240
    assert classes.evaluate((frame.drop(columns="income"), frame["income"])) == whole
    assert classes.evaluate((frame, frame[["income"]])) == whole
    errors = [classes.evaluate(part)["error"] * len(part) for part in parts]
    assert sum(errors) == pytest.approx(whole["error"] * 240)
    wrong = np.array(classes.task.class_names)[classes.predict(frame)] != frame["income"]
    assert whole["error"] == pytest.approx(wrong.mean())


def test_targets_are_compared_by_the_names_of_classes_even_if_these_are_numbers():
    table = {"x": [0.1, 0.9, 0.4] * 20, "y": [7, 3, 5] * 20}
    ensemble = learned_from(sparsemble.table(table, target="y"), 3)
    assert ensemble.task.class_names == ("3", "5", "7")
    frame = pd.DataFrame(table)
    predicted = np.array([3, 5, 7])[ensemble.predict(frame)]
    expected = pytest.approx((predicted != frame["y"]).mean())
    assert ensemble.evaluate(frame)["error"] == expected
    assert ensemble.evaluate((frame[["x"]], table["y"]))["error"] == expected


def test_rows_without_an_answer_are_not_measured_and_that_is_noted(classes, frame):
    some = frame.assign(income=frame["income"].where(frame["person"] > 40))
    score = classes.evaluate(some)
    assert score.count == 200
    assert score.notes == ["40 of 240 rows are left out: income is missing there"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda frame: frame.drop(columns="income"), "no column 'income' to compare predictions"),
        (lambda frame: frame.assign(income="fair"), "row 1 holds 'fair', which was not in"),
        (lambda frame: (frame, frame["income"][:5]), "240 rows but 5 targets"),
        (lambda frame: (frame, np.zeros((240, 2))), "give one column for each of income"),
        (lambda frame: frame[:0], "the data: no rows"),
        (lambda frame: sparsemble.table(frame[frame.age.fillna(1) < 40], "income"), "like=train"),
    ],
)
def test_data_that_cannot_be_compared_are_refused(classes, frame, data, message):
    with pytest.raises(InputError) as error:
        classes.evaluate(data(frame))
    assert message in str(error.value)


def test_numbers_are_predicted_in_the_units_of_the_table(numbers, frame):
    assert numbers.task.target_names == ("hours",)
    assert numbers.predict(frame).shape == (240,)
    away = numbers.predict(frame) - frame["hours"].to_numpy()
    assert numbers.evaluate(frame)["rmse"] == pytest.approx(np.sqrt((away**2).mean()))


def test_several_numbers_are_predicted_and_compared_by_name():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame({"x": x, "u": x + 0.1 * rng.normal(size=60), "v": 100 - 5 * x})
    ensemble = learned_from(sparsemble.table(frame, target=["u", "v"]), 2)
    assert ensemble.task.target_names == ("u", "v")
    whole = ensemble.evaluate(frame)
    assert ensemble.evaluate(frame[["v", "x", "u"]]) == whole
    assert ensemble.evaluate((frame[["x"]], frame[["v", "u"]])) == whole
    assert ensemble.evaluate((frame[["x"]], frame[["u", "v"]].to_numpy())) == whole


def test_an_empty_table_has_no_predictions(classes, frame):
    assert classes.predict(frame[:0]).shape == (0,)


def test_a_table_that_is_given_as_it_is_says_what_to_call(frame):
    network = sparsemble.feedforward(8, [4], 2)
    for data in (frame, (frame.drop(columns="income"), frame["income"])):
        with pytest.raises(InputError, match=r"sparsemble\.table\(frame, target='COLUMN'\)"):
            sparsemble.learn(network, data, sparsemble.load_recipe("digits", QUICK))


def test_classes_cannot_be_learned_as_numbers_unless_the_table_says_so(parts):
    with pytest.raises(InputError, match="has classes"):
        sparsemble.Regression().training(parts[0])


def test_files_of_ensembles_without_tables_stay_as_they_were(arrays):
    task = sparsemble.Classification().training(arrays).task
    assert "columns" not in task.model_dump()


def test_a_manifest_whose_columns_are_not_its_features_is_refused(classes, tmp_path):
    classes.save(tmp_path)
    manifest = read_json(tmp_path / "manifest.json")
    manifest["task"]["columns"]["columns"].pop()
    write_json(tmp_path / "manifest.json", manifest)
    with pytest.raises((InputError, CorruptFileError), match="columns and feature_names say"):
        Ensemble.load(tmp_path)


def test_a_run_in_a_folder_is_found_again(parts, tmp_path):
    def learn(data):
        recipe = sparsemble.load_recipe("digits", QUICK)
        return sparsemble.learn(
            lambda: sparsemble.feedforward(14, [6], 2), data, recipe, folder=tmp_path
        )

    first = learn(parts[0]).ensemble
    again = learn(parts[0]).ensemble
    assert torch.equal(first[0].network[0].weight, again[0].network[0].weight)
    with pytest.raises(InputError, match="belongs to another run"):
        learn(parts[1])
