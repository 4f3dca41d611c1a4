"""Files of strangers on the command line: endless, enormous, in pipes, with names that command."""

import csv
import io
import json
import os
import sys
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest

from small_ensembles import (
    FEATURES,
    classifiers,
    language_models,
    regressors,
    table,
    table_classifiers,
)
from sparsemble.cli.options import results_console
from sparsemble.data.arrays import AT_ONCE
from sparsemble.results.tables import Table
from sparsemble.tasks.example_files import Answer

ESCAPE = "\x1b[2J"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of ensembles by what they predict."""
    folder = tmp_path_factory.mktemp("saved")
    made = {
        "classes": classifiers(),
        "numbers": regressors(),
        "text": language_models(),
        "table": table_classifiers(),
        "formulas": classifiers("=1+1", "-2", "entropy"),
        "escapes": classifiers(f"a{ESCAPE}", "b"),
    }
    for name, ensemble in made.items():
        ensemble.save(folder / name)
    return folder


def write_rows(path, rows, **more):
    inputs = np.random.default_rng(0).normal(size=(rows, 3)).round(3)
    columns = dict(zip(FEATURES, inputs.T, strict=True)) | more
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def refused(command, *arguments):
    """What is said of what is refused, in one line."""
    code, out, said = command(*arguments)
    assert (code, out, said.count("\n")) == (2, "", 1)
    return said


# Lines, devices, folders


@pytest.mark.parametrize("name", ["classes", "table", "text"])
def test_a_line_without_end_is_refused_by_its_number(command, saved, tmp_path, name):
    path = tmp_path / f"long.{'txt' if name == 'text' else 'csv'}"
    header, row = "left,middle,right", "1,2,3"
    if name == "table":
        header, row = pd.DataFrame(table(1)).to_csv(index=False).split()
    path.write_text(f"{header}\n{row}\n" + "1 " * (9 << 20))
    limit = "1 MiB" if name == "table" else "16 MiB"
    expected = f"{path}: line 3 is longer than {limit}, the most that a line may have"
    assert expected in refused(command, "predict", saved / name, path)
    assert expected in refused(command, "evaluate", saved / name, "--on", path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"' + "1\n" * 200_000, "rows.csv cannot be read as CSV: line 2: field larger than"),
        ('1,2,"' + '","\n' * 50_000, "rows.csv: the record that begins in line 2 is longer than"),
    ],
)
def test_a_quotation_mark_that_is_missing_does_not_take_in_all_of_a_file(
    command, saved, tmp_path, content, message, monkeypatch
):
    monkeypatch.setattr("sparsemble.data.rows.MOST_LINE", 1 << 16 if "," in content else 1 << 20)
    (tmp_path / "rows.csv").write_text("left,middle,right\n" + content)
    assert message in refused(command, "predict", saved / "classes", tmp_path / "rows.csv")


def test_nor_all_of_a_table(command, saved, tmp_path):
    header, row = pd.DataFrame(table(1)).to_csv(index=False).split()
    (tmp_path / "t.csv").write_text(f'{header}\n{row}\n"' + "1\n" * (1 << 21))
    said = refused(command, "predict", saved / "table", tmp_path / "t.csv")
    assert "t.csv: a row after row 1 is longer than 1 MiB" in said


@pytest.mark.parametrize("name", ["classes", "table", "text"])
def test_devices_and_folders_are_no_files(command, saved, tmp_path, name):
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "/dev/zero is a device" in refused(command, "predict", saved / name, "/dev/zero")
    assert "/dev/zero is a device" in refused(
        command, "evaluate", saved / name, "--on", "/dev/zero"
    )
    assert "folder.csv is a folder" in refused(command, "predict", saved / name, folder)


# Pipes


@pytest.fixture
def piped():
    """Gives a name for a pipe through which some content comes, in two pieces."""
    writers, ends = [], []

    def opened(content):
        reading, writing = os.pipe()

        def write():
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                pipe.write(content[:3])
                pipe.write(content[3:])

        writers.append(threading.Thread(target=write))
        ends.append(reading)
        writers[-1].start()
        return f"/dev/fd/{reading}"

    yield opened
    for end in ends:
        os.close(end)
    for writer in writers:
        writer.join()


@pytest.mark.parametrize("name", ["classes", "numbers"])
@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_rows_come_through_a_pipe(command, saved, tmp_path, piped, name, kind):
    path = write_rows(tmp_path / "rows.csv", 300)
    if kind == "npy":
        np.save(tmp_path / "rows.npy", pd.read_csv(path).to_numpy(np.float32))
        path = tmp_path / "rows.npy"
    expected = command("predict", saved / name, path)
    assert expected[0] == 0
    assert command("predict", saved / name, piped(path.read_bytes())) == expected


def test_tables_and_texts_come_through_a_pipe(command, saved, tmp_path, piped):
    frame = pd.DataFrame(table(300))
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.txt").write_text("the dog sees\nthe cat\n")
    for name, file in (("table", "t.csv"), ("text", "t.txt")):
        content = (tmp_path / file).read_bytes()
        expected = command("predict", saved / name, tmp_path / file)
        assert expected[0] == 0
        assert command("predict", saved / name, piped(content)) == expected
        expected = command("evaluate", saved / name, "--on", tmp_path / file, "--json")
        assert command("evaluate", saved / name, "--on", piped(content), "--json") == expected


@pytest.mark.parametrize(("kind", "name"), [("npz", "classes"), ("parquet", "table")])
def test_what_has_its_directory_at_the_end_does_not(command, saved, tmp_path, piped, kind, name):
    if kind == "npz":
        np.savez(tmp_path / "rows.npz", inputs=np.zeros((3, 3)))
    else:
        pd.DataFrame(table(5)).to_parquet(tmp_path / "rows.parquet")
    content = (tmp_path / f"rows.{kind}").read_bytes()
    said = refused(command, "predict", saved / name, piped(content))
    assert "cannot be read from a pipe" in said
    assert "name the file itself" in said


# Arrays that say one thing and hold another


def array(shape, content=b"", dtype="<f4"):
    """An NPY file whose header may say anything."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (array((1, 10**12)), "take 3,814,697 MiB each, the most is 256 MiB"),
        (array((10**12, 3), bytes(120)), "ends before its last row"),
        (array((2, 3), bytes(1000)), "holds more than its header says"),
        (array((-1, 3)), "shape (-1, 3)"),
        (array((2, 3), dtype="|O"), "Object arrays cannot be loaded"),
        (array((2, 4), bytes(32)), "the ensemble reads 3 features per row"),
    ],
)
def test_no_more_is_read_than_an_array_is_said_to_hold(command, saved, tmp_path, content, message):
    path = tmp_path / "rows.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", content)
    out = tmp_path / "out.csv"
    said = refused(command, "predict", saved / "classes", path, "--out", out)
    assert message in said
    assert str(path) in said
    assert not out.exists()


@pytest.mark.parametrize("name", ["rows.npz", "rows.csv"])
def test_labels_do_not_wrap_around(command, saved, tmp_path, name):
    labels = np.array([0, 2**63, 2**64 - 1], np.uint64)
    np.savez(tmp_path / "rows.npz", inputs=np.zeros((3, 3)), labels=labels)
    write_rows(tmp_path / "rows.csv", 3, label=labels)
    said = refused(command, "evaluate", saved / "classes", "--on", tmp_path / name)
    assert "is larger than a label may be" in said


# What is written


def test_names_are_no_formulas_and_no_two_columns_become_one(command, saved, tmp_path):
    path = write_rows(tmp_path / "rows.csv", 50)
    code, out, _ = command("predict", saved / "formulas", path)
    header, *rows = csv.reader(io.StringIO(out))
    shares = ["'=1+1", "-2", "probabilities.entropy"]
    assert code == 0
    assert header == ["prediction", "entropy", "mutual_information", *shares]
    assert all(len(row) == 6 for row in rows)
    assert {row[0] for row in rows} <= {"'=1+1", "-2", "entropy"}
    ensemble = classifiers("=1+1", "-2", "entropy")
    expected = ensemble.predict_proba(pd.read_csv(path).to_numpy())
    np.testing.assert_allclose([[float(c) for c in row[3:]] for row in rows], expected, rtol=1e-5)
    found = json.loads(command("predict", saved / "formulas", path, "--json")[1])
    assert list(found[0]["probabilities"]) == ["=1+1", "-2", "entropy"]


def test_nothing_that_is_printed_commands_a_terminal(command, saved, tmp_path, monkeypatch):
    path = write_rows(tmp_path / "rows.csv", 3)
    assert ESCAPE in command("predict", saved / "escapes", path)[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = command("predict", saved / "escapes", path)[1]
    assert ESCAPE not in out
    assert r"a\x1b[2J" in out
    write_rows(path, 3, label=["x"] * 3)
    said = refused(command, "evaluate", saved / "escapes", "--on", path)
    assert r"'x' is not a class of the ensemble (a\x1b[2J, b)" in said


def test_nor_does_what_a_table_or_a_note_shows(capsys):
    console = results_console()
    console.print(Table(f"t{ESCAPE}", (f"h{ESCAPE}",), ((f"c{ESCAPE}",),)))
    console.print(f"note{ESCAPE}")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert shown.count(r"\x1b[2J") == 4


@pytest.mark.parametrize("row", [2, AT_ONCE + 6])
def test_a_prediction_that_is_not_finite_is_an_error_that_names_the_row(
    command, saved, tmp_path, row
):
    path = write_rows(tmp_path / "rows.csv", AT_ONCE + 10, label="a")
    lines = path.read_text().splitlines()
    lines[1 + row] = "3e38,-3e38,3e38,a"
    path.write_text("\n".join(lines))
    out = tmp_path / "out.csv"
    said = refused(command, "predict", saved / "classes", path, "--out", out)
    assert f"{path}: what the members predict for row {row + 1} is not finite" in said
    assert not out.exists()
    assert "is not finite" in refused(command, "evaluate", saved / "classes", "--on", path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_ends_on_the_way_leaves_the_file_of_before(
    command, saved, tmp_path, monkeypatch, error
):
    path, out = write_rows(tmp_path / "rows.csv", AT_ONCE + 10), tmp_path / "out.csv"
    out.write_text("before")
    written = Answer.text.fget

    def ended(answer):
        if len(answer.value) < AT_ONCE:
            raise error
        return written(answer)

    monkeypatch.setattr(Answer, "text", property(ended))
    monkeypatch.setattr("sys.argv", ["sparsemble", "predict", *map(str, (saved / "classes", path))])
    before = sorted(tmp_path.iterdir())
    if error is KeyboardInterrupt:
        assert command("predict", saved / "classes", path, "--out", out)[0] == 130
    else:
        with pytest.raises(RuntimeError):
            _called("predict", saved / "classes", path, "--out", out)
    assert sorted(tmp_path.iterdir()) == before
    assert out.read_text() == "before"


def _called(*arguments):
    from sparsemble.cli.main import main

    sys.argv = ["sparsemble", *map(str, arguments)]
    main()


def test_predictions_go_into_a_pipe_as_they_come(command, saved, tmp_path):
    path, pipe = write_rows(tmp_path / "rows.csv", 2 * AT_ONCE), tmp_path / "pipe"
    expected = command("predict", saved / "classes", path)[1]
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    assert command("predict", saved / "classes", path, "--out", pipe)[:2] == (0, "")
    reader.join()
    assert read == [expected]
    assert pipe.is_fifo()


@pytest.mark.parametrize("rows", [3, AT_ONCE + 3])
def test_json_of_many_parts_is_one_list(command, saved, tmp_path, rows):
    path = write_rows(tmp_path / "rows.csv", rows)
    out = command("predict", saved / "numbers", path, "--json")[1]
    found = json.loads(out)
    assert len(found) == rows
    assert out == json.dumps(found, ensure_ascii=False, indent=2) + "\n"
