"""The same table as pandas, polars, Arrow or a dict has it: one encoding, equal tensors."""

import datetime
import sys

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sparsemble
from sparsemble.errors import InputError
from sparsemble.tables import as_frame, is_table

TABLE = {
    "age": [30, None, 51, 18, 44, 30],
    "weight": [70.5, 81.0, None, 55.25, 90.0, 64.0],
    "sex": ["f", "m", "m", None, "f", "m"],
    "member": [True, None, False, True, True, False],
    "since": [datetime.date(2020, 1, k) if k < 6 else None for k in range(1, 7)],
    "seen": [datetime.datetime(2021, 3, k, 6 * k % 24) for k in range(1, 7)],
    "took": [datetime.timedelta(hours=6 * k) for k in range(6)],
    "rises": [datetime.time(3 * k, 30) for k in range(6)],
    "sold": ["no", "yes", "no", "yes", "no", "yes"],
}


def as_categories(frame):
    return frame.assign(sex=frame.sex.astype("category"))


KINDS = {
    "pandas": pd.DataFrame,
    "pandas with its own types": lambda own: pd.DataFrame(own).convert_dtypes(),
    "pandas with Arrow's types": lambda own: pa.table(own).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas with categories": lambda own: as_categories(pd.DataFrame(own)),
    "polars": pl.DataFrame,
    "lazy polars": pl.LazyFrame,
    "polars with categories": lambda own: pl.DataFrame(own).with_columns(
        pl.col("sex").cast(pl.Enum(["m", "f"]))
    ),
    "Arrow": pa.table,
    "Arrow with categories": lambda own: pa.table(own).set_column(
        2, "sex", pa.array(own["sex"]).dictionary_encode()
    ),
    "a record batch": pa.RecordBatch.from_pydict,
    "narwhals": lambda own: narwhals.from_native(pl.DataFrame(own)),
    "a dict": dict,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_library_gives_equal_tensors(kind):
    expected = sparsemble.table(pa.table(TABLE), target="sold")
    found = sparsemble.table(KINDS[kind](TABLE), target="sold")
    assert found.columns == expected.columns
    assert found.found == expected.found
    assert torch.equal(found.inputs, expected.inputs)
    assert torch.equal(found.targets, expected.targets)


def test_the_numbers_are_those_of_the_table():
    data = sparsemble.table(TABLE, target="sold")
    columns = dict(zip(data.feature_names, data.inputs.T.tolist(), strict=True))
    assert columns["age"] == [30, 30, 51, 18, 44, 30]
    assert columns["member"] == [1, 1, 0, 1, 1, 0]
    assert columns["since"] == [18262, 18263, 18264, 18265, 18266, 18264]
    assert columns["seen"] == [18686 + k + (6 * k % 24) / 24 for k in range(1, 7)]
    assert columns["took"] == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert columns["rises"] == pytest.approx([(3 * k + 0.5) / 24 for k in range(6)])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_are_told_from_arrays(kind):
    assert is_table(kind(TABLE))
    data = sparsemble.table(TABLE, target="sold")
    for other in (data, data.inputs, np.zeros((2, 2)), [1], pd.Series([1]), pl.Series([1]), "x"):
        assert not is_table(other)


def test_columns_without_a_text_as_name_are_called_by_it():
    table = pd.DataFrame({0: [1.5, 2.5, 1.0], 1: ["a", "b", "a"]})
    assert sparsemble.table(table, target="1").feature_names == ("0",)


def test_two_columns_of_one_name_are_refused():
    table = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(InputError, match="'a'"):
        as_frame(table, "the table")


def test_integers_that_no_double_holds_are_rounded():
    for kind in (pa.table, pl.DataFrame, pd.DataFrame):
        data = sparsemble.table(kind({"x": [2**63 - 1, 1, 2], "y": ["a", "b", "a"]}), target="y")
        assert data.inputs[:, 0].tolist() == [2.0**63, 1, 2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, 2]], "list is no table: give one of pandas, polars or Arrow, or a dict of columns"),
        (pd.Series([1, 2]), "Series is no table"),
        (pd.DataFrame({("a", "b"): [1], ("a", "c"): [2]}), "give each a text as name"),
        (pd.DataFrame({"y": []}), "no rows"),
        (pl.DataFrame({"y": []}), "no rows"),
        ({"y": 3}, "not a table of columns"),
    ],
)
def test_what_is_no_table_is_refused(values, message):
    with pytest.raises(InputError) as error:
        sparsemble.table(values, target="y")
    assert message in str(error.value)


def test_values_of_several_kinds_are_left_out_and_said():
    table = pd.DataFrame({"x": [1.5, 2.0, 1.0], "mixed": [1, "a", None], "y": ["a", "b", "a"]})
    data = sparsemble.table(table, target="y")
    assert "mixed: left out, it holds values of type int and str" in data.found


def test_times_with_a_zone_are_those_of_greenwich():
    zone = datetime.timezone(datetime.timedelta(hours=6))
    times = [datetime.datetime(1970, 1, 2, 12, tzinfo=zone), None]
    for kind in (pl.DataFrame, pa.table, pd.DataFrame):
        data = sparsemble.table(kind({"t": times, "y": ["a", "b"]}), target="y")
        assert data.inputs[0, 0] == 1.25


def test_without_the_extra_tables_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(InputError, match=r"need narwhals.*pip install 'sparsemble\[tables\]'"):
        sparsemble.table(pd.DataFrame(TABLE), target="sold")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="tables need pyarrow"):
        sparsemble.read_table(tmp_path / "t.csv", target="b")


def test_without_the_extra_a_table_of_numbers_goes_on_as_before(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.5]})
    task = sparsemble.Classification().training((frame, [0, 1, 0])).task
    assert task.feature_names == ("a", "b")
    assert task.columns is None
    assert task.inputs(frame[["b", "a"]]).tolist() == [[1, 0], [2, 1], [3, 0.5]]


def test_the_names_of_an_arrow_table_of_numbers_are_its_columns():
    task = sparsemble.Classification().training((pa.table({"b": [1.0], "a": [2.0]}), [0])).task
    assert task.feature_names == ("b", "a")
    assert task.inputs(pa.table({"a": [2.0], "b": [1.0]})).tolist() == [[1, 2]]


CELLS = {
    "number": st.one_of(st.none(), st.floats(-1e6, 1e6, width=32)),
    "whole": st.one_of(st.none(), st.integers(-5, 5)),
    "text": st.one_of(st.none(), st.sampled_from(["x", "y", "Ü ", "1"])),
    "truth": st.one_of(st.none(), st.booleans()),
}


@pytest.mark.slow
@given(st.data())
def test_any_table_is_the_same_in_every_library_and_for_any_order_of_columns(data):
    rows = data.draw(st.integers(4, 12))
    table = {
        name: data.draw(st.lists(cells, min_size=rows, max_size=rows))
        for name, cells in CELLS.items()
    }
    table["kept"] = [k / 2 for k in range(rows)]
    table["y"] = (["a", "b"] * rows)[:rows]
    # What holds nothing has a type in no library.
    table = {name: own for name, own in table.items() if any(cell is not None for cell in own)}
    order = data.draw(st.permutations(list(table)))
    expected = sparsemble.table(pa.table(table), target="y")
    assert len(expected.feature_names) == expected.inputs.shape[1]
    assert bool(expected.inputs.isfinite().all())
    for kind in (pd.DataFrame, pl.DataFrame):
        found = sparsemble.table(kind(table), target="y")
        assert found.columns == expected.columns
        assert torch.equal(found.inputs, expected.inputs)
        moved = as_frame(kind({name: table[name] for name in order}), "moved")
        assert torch.equal(expected.columns.encode(moved, "moved"), expected.inputs)
