"""What is found in a table's columns, how it is said, and what becomes of them."""

import numpy as np
import pytest
import torch

import sparsemble
from sparsemble.errors import InputError
from sparsemble.tables import CategoryColumn, NumberColumn, TableEncoding, TargetColumn, as_frame
from sparsemble.tables.cells import day

TABLE = {
    "age": [20.0, None, 40.0, 30.0],
    "sex": ["male", "female", None, "male"],
    "member": [True, False, True, True],
    "sold": ["no", "yes", "no", "yes"],
}


DATES = np.array(["2020-01-01"] * 4, dtype="datetime64[D]")


def encoded(columns, table, **how):
    encoding = TableEncoding(columns=columns, **how)
    return encoding.encode(as_frame(table, "the table"), "the table")


def found_in(column, target=None, **how):
    rows = len(column)
    target = target or ["no", "yes"] * (rows // 2)
    data = sparsemble.table({"x": column, "z": [0.5, 1.5] * (rows // 2), "y": target}, "y", **how)
    return next(text for text in data.found if text.startswith("x: "))


def test_a_table_becomes_numbers_categories_and_what_is_missing():
    data = sparsemble.table(TABLE, target="sold")
    assert data.feature_names == (
        "age",
        "age is missing",
        "sex=female",
        "sex=male",
        "sex is missing",
        "member",
    )
    assert data.inputs.tolist() == [
        [20, 0, 0, 1, 0, 1],
        [30, 1, 1, 0, 0, 0],
        [40, 0, 0, 0, 1, 1],
        [30, 0, 0, 1, 0, 1],
    ]
    assert data.inputs.dtype == torch.float32
    assert data.class_names == ("no", "yes")
    assert data.targets.tolist() == [0, 1, 0, 1]


def test_what_was_found_is_said_in_sentences():
    assert sparsemble.table(TABLE, target="sold").found == (
        "sold: to be predicted, 2 classes (no, yes), because it holds texts",
        "age: a number, 1 value missing, filled in with 30",
        "sex: 2 categories (female, male), 1 value missing, as a category of its own",
        "member: true or false, as 1 or 0",
    )


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (list(range(1, 31)), "x: left out, it counts the rows"),
        (list(range(30))[::-1], "x: left out, it counts the rows"),
        (list(range(1900, 1930)), "x: a number"),
        (["same"] * 30, "x: left out, it is 'same' in every row"),
        ([7] * 30, "x: left out, it is '7' in every row"),
        ([None] * 30, "x: left out, it holds nothing"),
        ([""] * 30, "x: left out, it holds nothing"),
        ([float("nan")] * 30, "x: left out, it holds nothing"),
        ([[1, 2]] * 30, "x: left out, it holds values of type List(Int64)"),
        ([f"n{k}" for k in range(30)], "x: left out, 30 different texts in 30 rows (name it in"),
        (["a", None] * 15, "x: 1 category (a), 15 values missing, as a category of its own"),
        (["2020-01-02", "1970-01-02"] * 15, "x: a date, as days since 1970"),
        (
            ["2020-01-02", None] * 15,
            "x: a date, as days since 1970, 15 values missing, filled in with 2020-01-02",
        ),
    ],
)
def test_columns_that_say_nothing_or_too_much_are_left_out(column, sentence):
    assert found_in(column).startswith(sentence)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"numbers": ["x"]}, "x: a number"),
        ({"categories": ["x"]}, "x: 30 categories (1, 2, 3, 4, 5, 6, 7, 8 and 22 more)"),
        ({"leave_out": ["x"]}, "x: left out, as asked for"),
    ],
)
def test_what_is_found_can_be_said_otherwise(how, sentence):
    assert found_in(list(range(1, 31)), **how) == sentence


@pytest.mark.parametrize(
    ("target", "classes", "why"),
    [
        (["b", "a"] * 15, ("a", "b"), "because it holds texts"),
        ([True, False] * 15, ("false", "true"), "because it holds true or false"),
        ([10, 2] * 15, ("2", "10"), "because it holds whole numbers, only 2 different ones"),
        ([1.0, 3.0, 2.0] * 10, ("1", "2", "3"), "whole numbers, only 3 different ones"),
        ([1, 2, 3, 4, 5] * 6, None, "because it holds 5 different numbers"),
        ([0.5, 1.5] * 15, None, "because it holds 2 different numbers"),
    ],
)
def test_classes_or_numbers_is_guessed_from_the_target_and_said(target, classes, why):
    data = sparsemble.table({"x": [0.1, 0.2, 0.3] * 10, "y": target}, "y")
    assert data.class_names == classes
    assert data.target_names == (None if classes else ("y",))
    assert data.found[0].endswith(why)


def test_the_guess_can_be_overridden():
    table = {"x": [0.1, 0.2, 0.3] * 10, "y": [1, 2, 3] * 10}
    data = sparsemble.table(table, "y", predict="numbers")
    assert data.targets.tolist() == [[1.0], [2.0], [3.0]] * 10
    assert data.found[0] == "y: to be predicted as a number, as asked for"
    five = {"x": [0.1, 0.2, 0.3] * 10, "y": [5, 6, 7, 8, 9] * 6}
    assert sparsemble.table(five, "y", predict="classes").class_names == ("5", "6", "7", "8", "9")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "target = 3: give a list of columns, as target=['3']"),
        ([3], "target holds 3: give the names of columns, which are texts"),
        ([], "say which column is to be predicted (target): x, y"),
        (["x", "x"], "name each column once"),
    ],
)
def test_targets_are_names_of_columns(target, message):
    with pytest.raises(InputError) as error:
        sparsemble.table({"x": [1.5, 2.5], "y": ["a", "b"]}, target)
    assert message in str(error.value)


def test_several_targets_are_numbers_by_their_names():
    table = {"x": [0.1, 0.2, 0.4], "u": [1.5, 2.5, 3.5], "v": [10, 20, 30]}
    data = sparsemble.table(table, ["v", "u"])
    assert data.target_names == ("v", "u")
    assert data.targets.tolist() == [[10, 1.5], [20, 2.5], [30, 3.5]]
    with pytest.raises(InputError, match=r"'w': of several targets each must be numbers"):
        sparsemble.table({**table, "w": ["a", "b", "a"]}, ["u", "w"])


def test_rows_without_a_target_are_left_out_and_counted():
    data = sparsemble.table({"x": [1.0, 2.0, 3.5, 4.0], "y": ["a", None, "b", "a"]}, "y")
    assert data.inputs.tolist() == [[1], [3.5], [4]]
    assert data.found[0] == "1 of 4 rows are left out: y is missing there"


@pytest.mark.parametrize(
    ("table", "how", "message"),
    [
        ({"x": [1.5, 2, 3], "y": ["a"] * 3}, {}, "column 'y': is 'a' in all rows: there is noth"),
        ({"x": [1.5, 2, 3], "y": [None] * 3}, {}, "y is missing in every row"),
        ({"x": [1.5, 2, 3], "y": ["a", "b", "c"]}, {}, "3 different values in 3 rows are no class"),
        (
            {"x": [1.5, 2], "y": ["a", "b"]},
            {"predict": "numbers"},
            "row 1 holds the text 'a'",
        ),
        ({"x": [1.5, 2], "y": ["a", "b"]}, {"predict": "wrong"}, "predict = 'wrong'"),
        ({"x": [1, 1], "y": ["a", "b"]}, {}, "no column is left to learn from"),
        (
            {"x": [1.5, 2], "y": ["a", "b"]},
            {"numbers": ["z"]},
            "there is no column 'z', as",
        ),
        ({"x": [1.5, 2], "y": ["a", "b"]}, {"numbers": ["y"]}, "'y' is the target, and stands in"),
        ({"x": [1.5, 2], "y": ["a", "b"]}, {"numbers": "x"}, "give a list of columns"),
        (
            {"x": ["k", "l"], "y": ["a", "b"]},
            {"numbers": ["x"]},
            "row 1 holds the text 'k'",
        ),
        (
            {"x": [1.5, 2], "y": ["a", "b"]},
            {"numbers": ["x"], "categories": ["x"]},
            "cannot be",
        ),
        ({"x": [1.5, float("inf")], "y": ["a", "b"]}, {}, "row 2 holds infinity"),
        ({"x": [1.5, 1e300], "y": ["a", "b"]}, {}, "row 2 is too large for single precision"),
        ({"x": [1.5, 2], "x is missing": [1, None], "y": ["a", "b"]}, {}, None),
        ({"x": [1.5], "y": ["a", "b"]}, {}, "not a table of columns"),
        ({"x": [1.5, 2], "y": [[1], [2]]}, {}, "holds values of type List(Int64), which cannot be"),
        ({"x": [1.5, 2], "y": DATES[:2]}, {}, "'y': holds dates, which cannot be predicted"),
    ],
)
def test_a_table_that_nothing_can_be_learned_from_is_refused(table, how, message):
    if message is None:  # names only clash where both are inputs
        assert sparsemble.table(table, "y", **how).feature_names[0] == "x"
        return
    with pytest.raises(InputError) as error:
        sparsemble.table(table, "y", **how)
    assert message in str(error.value)


def test_names_of_inputs_that_clash_are_refused():
    table = {"x": [1.5, None, 2], "x is missing": [1, 2, 4], "y": ["a", "b", "a"]}
    with pytest.raises(InputError, match=r"two inputs would be called 'x is missing': rename"):
        sparsemble.table(table, "y")


def test_numbers_with_a_few_texts_among_them_are_no_categories():
    ages = [str(20 + k % 25) for k in range(100)]
    ages[41] = "unknown"
    with pytest.raises(InputError, match=r"holds numbers, but for 'unknown' in row 42 \(1 of 100"):
        found_in(ages)
    assert found_in(ages, categories=["x"]).startswith("x: 26 categories")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": None}, "column 'age' is missing (1 in all)"),
        (
            {"more": [1, 2, 3, 4]},
            "column 'more' was not in the table that was learned from (1 such",
        ),
        ({"age": None, "Age": [1, 2, 3, 4]}, "column 'age' is missing (1 in all); is it 'Age'?"),
        ({"age": ["1", "2", "x", "4"]}, "column 'age': row 3 holds the text 'x' where numbers are"),
        (
            {"sex": ["male", "other", "male", "x"]},
            "row 2 holds 'other', which was not in the table",
        ),
        ({"member": [True, None, True, True]}, "row 2 holds no value (1 row of 4 read)"),
        ({"member": [1, 0, 2, 1]}, "column 'member': row 3 holds 2, not 0 or 1"),
        ({"age": DATES}, "'age': holds dates where numbers are"),
        ({"sex": DATES}, "'sex': holds dates where texts are"),
        ({"age": [1, 2, -np.inf, 3]}, "column 'age': row 3 holds infinity"),
    ],
)
def test_another_table_that_does_not_fit_is_refused_by_column_row_and_value(change, message):
    columns = sparsemble.table(TABLE, target="sold").columns
    other = {name: own for name, own in {**TABLE, **change}.items() if own is not None}
    with pytest.raises(InputError) as error:
        columns.encode(as_frame(other, "test.csv"), "test.csv")
    assert str(error.value).startswith("test.csv")
    assert message in str(error.value)


def test_what_was_never_seen_can_be_ignored():
    columns = sparsemble.table(TABLE, target="sold", unseen="ignore").columns
    other = {"age": [None], "sex": ["other"], "member": [None]}
    frame = as_frame(other, "x")
    assert columns.encode(frame, "x").tolist() == [[30, 1, 0, 0, 0, 1]]  # most are members
    with pytest.raises(InputError, match="'other'"):
        columns.encode(frame, "x", unseen="refuse")


def test_a_category_may_be_written_in_other_ways():
    columns = [CategoryColumn(name="k", categories=("1", "2.50", "True", "a"))]
    texts = encoded(columns, {"k": ["1.0", "2.5", "true", " a "]})
    assert texts.tolist() == torch.eye(4).tolist()
    assert encoded(columns, {"k": [1.0, 2.5]}).argmax(1).tolist() == [0, 1]
    assert encoded(columns, {"k": [True]}).argmax(1).tolist() == [2]


def test_dates_are_days_since_1970():
    column = NumberColumn(name="d", holds="date")
    days = [[0.0], [1.5], [-1.0]]
    texts = ["1970-01-01", "1970-01-02T12:00", "1969-12-31"]
    assert encoded([column], {"d": texts}).tolist() == days
    assert encoded([column], {"d": np.array(texts, dtype="datetime64[s]")}).tolist() == days


def test_medians_and_scaling_of_a_test_set_come_from_the_training_set():
    generator = np.random.default_rng(0)
    ages = [None if k % 7 == 0 else float(age) for k, age in enumerate(generator.normal(size=70))]
    data = sparsemble.table({"age": ages, "y": ["a", "b"] * 35}, "y")
    train, test = data.parts(test=0.3, seed=1)
    known = train.inputs[train.inputs[:, 1] == 0, 0].double()
    fill = float(np.median(known.numpy()))
    assert (len(train), len(test)) == (49, 21)
    assert train.columns == test.columns
    assert train.columns.columns[0].fill == fill
    for part in (train, test):
        filled = part.inputs[part.inputs[:, 1] == 1, 0]
        assert len(filled) > 0
        assert torch.equal(filled, torch.full_like(filled, fill))
        assert part.scaling.same_as(train.scaling)
    scaled = train.scaled()
    torch.testing.assert_close(scaled[:, 0].mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    assert torch.equal(scaled[:, 1], train.inputs[:, 1])  # what is 0 or 1 stays
    rows = torch.cat([train.inputs, test.inputs])[:, 0]
    assert sorted(rows[rows != fill].tolist()) == sorted(
        np.float32([a for a in ages if a]).tolist()
    )


@pytest.mark.parametrize("share", [0.0, 1.0, 0.001])
def test_a_part_without_rows_is_refused(share):
    with pytest.raises(InputError, match="give a share that leaves some for both"):
        sparsemble.table(TABLE, target="sold").parts(test=share)


def test_a_test_set_is_read_as_the_training_set_was():
    train = sparsemble.table(TABLE, target="sold")
    other = {"sold": ["yes"], "member": [False], "sex": ["female"], "age": [None]}
    test = sparsemble.table(other, like=train)
    assert test.inputs.tolist() == [[30, 1, 1, 0, 0, 0]]
    assert test.targets.tolist() == [1]
    with pytest.raises(InputError, match="like says everything"):
        sparsemble.table(other, target="sold", like=train)
    with pytest.raises(InputError, match="'sold': row 1 holds 'maybe', which was not in"):
        sparsemble.table({**other, "sold": ["maybe"]}, like=train)


def test_an_encoding_is_the_same_after_it_was_written_down():
    columns = sparsemble.table(TABLE, target="sold").columns
    assert TableEncoding.model_validate_json(columns.model_dump_json()) == columns
    assert columns.targets == (TargetColumn(name="sold", classes=("no", "yes")),)


def test_texts_that_only_end_like_a_number_stay_as_they_are():
    versions = ["1.2.0", "1.3.0", "v1.0", "v1"]
    data = sparsemble.table({"x": versions * 3, "z": range(12), "y": ["no", "yes"] * 6}, "y")
    names = [f"x={version}" for version in versions]
    assert set(names) < set(data.feature_names)
    places = [data.feature_names.index(name) for name in names]
    assert torch.equal(data.inputs[:4, places], torch.eye(4))


def test_numbers_of_many_digits_are_no_other_category():
    column = CategoryColumn(name="code", categories=("9007199254740992", "9007199254740994"))
    with pytest.raises(InputError, match="'9007199254740993', which was not in the table"):
        encoded([column], {"code": ["9007199254740993"]})
    assert encoded([column], {"code": ["9007199254740994"]}).tolist() == [[0.0, 1.0]]


def test_a_day_before_all_years_elsewhere_is_no_date():
    assert day("0001-01-01T00:00:00+14:00") is None
