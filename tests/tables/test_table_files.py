"""Tables in files: CSV, Parquet and NPZ, one or several."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import sparsemble
from sparsemble.errors import InputError
from sparsemble.tables import NumberColumn, TableEncoding, read_frame
from sparsemble.tables.streams import read_frames

CSV = """age,zip,since,y
30,01234,2020-01-02,no
,01234,2020-01-03,yes
45.5,98765,2020-01-04,no
"""


def written(folder, text, name="table.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def test_csv_parquet_and_npz_hold_the_same_table(tmp_path):
    table = {"age": [30.0, 20.5, 45.5, 2], "sex": ["f", "m", "f", "m"], "y": [0.5, 1.5, 2.0, 3]}
    path = written(tmp_path, pl.DataFrame(table).write_csv())
    expected = sparsemble.read_table(path, target="y")
    pq.write_table(pa.table(table), tmp_path / "table.parquet")
    np.savez(tmp_path / "table.npz", **{name: np.array(own) for name, own in table.items()})
    for name in ("table.parquet", "table.npz"):
        found = sparsemble.read_table(str(tmp_path / name), target="y")
        assert found.columns == expected.columns
        assert torch.equal(found.inputs, expected.inputs)
        assert torch.equal(found.targets, expected.targets)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_delimiters_are_found(tmp_path, mark, encoding):
    path = written(tmp_path, CSV.replace(",", mark), encoding=encoding)
    assert read_frame([path]).columns == ["age", "zip", "since", "y"]


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null", "NULL", "N/A"])
def test_cells_that_say_nothing_are_missing(tmp_path, cell):
    path = written(tmp_path, f"a,b,y\n1.5,x,u\n{cell},{cell},v\n2.5,x,u\n3,z,v\n")
    data = sparsemble.read_table(path, target="y")
    assert data.feature_names == ("a", "a is missing", "b=x", "b=z", "b is missing")
    assert data.inputs[1].tolist() == [2.5, 1, 0, 0, 1]


def test_categories_are_read_as_they_are_written(tmp_path):
    data = sparsemble.read_table(written(tmp_path, CSV), target="y", categories=["zip"])
    assert data.columns.columns[1].categories == ("01234", "98765")
    same = sparsemble.read_table(written(tmp_path, CSV, "other.csv"), like=data)
    assert torch.equal(same.inputs, data.inputs)


def test_categories_are_read_as_they_are_written_beside_spaces(tmp_path):
    path = written(tmp_path, CSV.replace("zip,since", " zip ,since"), encoding="utf-8-sig")
    data = sparsemble.read_table(path, target="y", categories=["zip"])
    assert data.columns.columns[1].categories == ("01234", "98765")


def test_types_are_found_in_all_rows_however_late_they_show(tmp_path):
    rows = "".join(f"{k % 97},{k % 2}\n" for k in range(300_000))
    path = written(tmp_path, f"x,y\n{rows}0.5,1\n")
    assert path.stat().st_size > 1 << 20
    assert sparsemble.read_table(path, target="y").inputs[-1, 0] == 0.5


def test_names_and_texts_lose_the_spaces_around_them(tmp_path):
    path = written(tmp_path, "age, job, y\n30, clerk, no\n40,clerk , yes\n50, cook, no\n")
    data = sparsemble.read_table(path, target="y")
    assert data.feature_names == ("age", "job=clerk", "job=cook")
    assert data.class_names == ("no", "yes")


def test_several_files_are_one_table_matched_by_name(tmp_path):
    first = written(tmp_path, CSV)
    second = written(tmp_path, "y,since,age,zip\nyes,2020-02-01,50,1\n", "more.csv")
    data = sparsemble.read_table([first, second], target="y")
    assert data.inputs[:, 0].tolist() == [30, 45.5, 45.5, 50]
    assert data.targets.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y,since,age\nyes,2020-02-01,50\n", "more.csv: column 'zip' is missing, which"),
        ("y,since,age,zip,x\nyes,2020-02-01,50,1,2\n", "more.csv: column 'x' is one that"),
        (
            "y,since,age,zip\nyes,2020-02-01,old,1\n",
            "more.csv: column 'age' holds string, and d",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path, text, message):
    paths = [written(tmp_path, CSV), written(tmp_path, text, "more.csv")]
    with pytest.raises(InputError) as error:
        sparsemble.read_table(paths, target="y")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "the first line is empty"),
        ("t.csv", "\n\n", "the first line is empty"),
        ("t.csv", "a,b\n", "no rows"),
        ("t.csv", "1.5,2\n3,4\n", "the first line holds numbers (1.5, 2, …): it must name the"),
        ("t.csv", "a,a\n1,2\n", "two columns are called 'a'"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "cannot be read as CSV: "),
        ("t.parquet", "a,b\n1,2\n", "cannot be read as PARQUET: "),
        ("t.npz", "a,b\n1,2\n", "cannot be read as NPZ: "),
        ("t.xlsx", "a,b\n1,2\n", "tables are read from .csv, .tsv, .parquet, .npz files"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path, name, text, message):
    with pytest.raises(InputError) as error:
        sparsemble.read_table(written(tmp_path, text, name), target="b")
    assert message in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_and_one_that_is_not_utf_8_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none.csv does not exist"):
        sparsemble.read_table(tmp_path / "none.csv", target="b")
    path = written(tmp_path, "a,b\ngrün,1\nrot,2\n", encoding="latin-1")
    with pytest.raises(InputError, match="column 'a' is not UTF-8"):
        sparsemble.read_table(path, target="b")


def test_lines_may_end_in_carriage_returns(tmp_path):
    (tmp_path / "old.csv").write_bytes(b"x,y\r1,a\r2,b\r")
    frame = read_frame([tmp_path / "old.csv"])
    assert frame.columns == ["x", "y"]
    assert frame["y"].to_list() == ["a", "b"]


def test_utf_16_is_told(tmp_path):
    (tmp_path / "wide.csv").write_bytes("x,y\n1,a\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"wide\.csv is UTF-16: save it as UTF-8"):
        read_frame([tmp_path / "wide.csv"])


def test_pickled_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.array([{}, {}], dtype=object))
    with pytest.raises(InputError, match="cannot be read as NPZ: Object arrays"):
        read_frame([tmp_path / "t.npz"])


def test_an_array_of_several_columns_has_their_numbers_in_their_names(tmp_path):
    np.savez(tmp_path / "t.npz", inputs=np.arange(6.0).reshape(3, 2), labels=[0.5, 1.5, 2.5])
    data = sparsemble.read_table(tmp_path / "t.npz", target="labels")
    assert data.feature_names == ("inputs 0", "inputs 1")
    np.savez(tmp_path / "u.npz", x=np.zeros(3), y=np.zeros(2))
    with pytest.raises(InputError, match=r"columns of different lengths \(3 of 'x', 2 of 'y'\)"):
        read_frame([tmp_path / "u.npz"])


def test_the_target_must_be_said_and_be_there(tmp_path):
    path = written(tmp_path, CSV)
    with pytest.raises(InputError, match=r"which column is to be predicted.*age, zip, since, y"):
        sparsemble.read_table(path)
    with pytest.raises(InputError, match=r"no column 'sinse' to be predicted; did you mean 'sin"):
        sparsemble.read_table(path, target="sinse")


def test_columns_of_arrays_that_share_a_name_are_refused(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, **{"x": np.zeros((3, 2)), "x 0": np.ones(3)})
    with pytest.raises(InputError, match="two columns are called 'x 0'"):
        read_frame([path])
    columns = TableEncoding(columns=[NumberColumn(name="x 0"), NumberColumn(name="x 1")])
    with pytest.raises(InputError, match="two columns are called 'x 0'"):
        list(read_frames(path, columns, targets=False))
