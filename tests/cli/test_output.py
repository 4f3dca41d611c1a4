"""Commands on any terminal and in any folder: no text breaks one, and no lost output is silent."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from sparsemble.cli.main import main
from sparsemble.errors import InputError
from sparsemble.paths import named_in_utf8

FULL = Path("/dev/full")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def odd(tmp_path, class_run):
    """A folder whose name is no UTF-8, with a finished run in it."""
    folder = tmp_path / os.fsdecode(b"odd\xff\xfe")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("all names are UTF-8 here")
    shutil.copytree(class_run, folder / "run")
    return folder


@pytest.fixture
def said(monkeypatch):
    """Runs a command on streams of one's own; its exit code and what stood on the first one."""

    def run(stream: io.TextIOWrapper, *arguments: object, errors: object = None) -> int:
        monkeypatch.setattr("sys.argv", ["sparsemble", *map(str, arguments)])
        monkeypatch.setattr("sys.stdout", stream)
        if errors is not None:
            monkeypatch.setattr("sys.stderr", errors)
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code

    return run


def ascii_terminal() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "ascii", errors="strict")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "run"),
        ("compare", "run", "run"),
        ("curves", "run", "--out", "curves.html"),
        ("curves", "run", "--out", "curves.svg"),
        ("report", "run", "--pictures", "pictures"),
        ("evaluate", "run", "--on", "digits"),
        ("predict", "run", ROOT / "examples/digits.csv", "--out", "predicted.csv"),
        ("resume", "run"),
        ("recipes",),
        ("recipes", "--settings"),
        ("learn", "--help"),
    ],
)
def test_an_ascii_terminal_and_a_folder_that_is_no_utf8_are_enough(
    arguments, odd, said, monkeypatch
):
    monkeypatch.chdir(odd)
    terminal = ascii_terminal()
    inside = [odd / own if own == "run" else own for own in arguments]
    assert said(terminal, *inside) == 0
    terminal.flush()
    assert terminal.buffer.getvalue().isascii()


def test_json_on_an_ascii_terminal_is_the_same_value(odd, said, class_run):
    terminal = ascii_terminal()
    assert said(terminal, "export", odd / "run", "--out", odd / "model.onnx") == 2
    assert said(terminal, "inspect", odd / "run", "--json") == 0
    terminal.flush()
    found = json.loads(terminal.buffer.getvalue())
    assert len(found["ensemble"]["members"]) == 3


def test_the_page_about_a_run_shows_its_strange_name_by_numbers(odd, command):
    assert command("report", odd / "run")[0] == 0
    assert "odd\\udcff\\udcfe" in (odd / "run" / "report.html").read_text(encoding="utf-8")


def test_libraries_that_know_only_utf8_are_not_asked_for_other_names(odd, command):
    shutil.copy(ROOT / "examples/people.csv", odd / "people.csv")
    quick = ("--set=chain.epochs=1", "--set=chain.interval=1", "--baseline=none")
    for arguments, who in (
        (("export", odd / "run", "--out", odd / "model.onnx"), "ONNX Runtime"),
        (("learn", "digits", "--csv", odd / "people.csv", "--target=income"), "Arrow"),
        (("learn", "digits", *quick, "--out", odd / "new", "--tensorboard"), "TensorBoard"),
    ):
        code, _, told = command(*arguments)
        assert code == 2
        assert f"{who} only takes names that are UTF-8" in told
    with pytest.raises(InputError, match="use another folder"):
        named_in_utf8(odd, "Arrow")


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
class TestFullDisks:
    @pytest.mark.parametrize("arguments", [("recipes",), ("recipes", "--settings"), ("--help",)])
    def test_output_that_is_lost_is_told_in_a_line(self, arguments, said, capsys):
        with FULL.open("w") as full:
            assert said(full, *arguments) == 1
        assert "No space left on device" in (told := capsys.readouterr().err)
        assert told.startswith("sparsemble: output cannot be written")
        assert told.count("\n") == 1

    def test_an_error_that_cannot_be_told_keeps_its_exit_code(self, said, tmp_path):
        with FULL.open("w") as full:
            assert said(sys.stdout, "inspect", tmp_path / "none", errors=full) == 2

    def test_an_error_is_not_hidden_by_output_that_is_lost(self, said, tmp_path, capsys):
        with FULL.open("w") as full:
            assert said(full, "inspect", tmp_path / "none") == 2
        assert "holds neither a run nor an ensemble" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_told_nothing(said, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        assert said(stream, "recipes", "--settings") == 1
    assert capsys.readouterr().err == ""


def test_an_error_without_standard_error_does_not_go_to_standard_output(said, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    assert said(sys.stdout, "inspect", "none") == 2
    assert capsys.readouterr().out == ""


def test_messages_that_quote_a_lot_are_cut(command):
    code, _, told = command("recipes", "x" * 1_000_000)
    assert code == 2
    assert len(told) < 5000
    assert "more) …" in told
    code, _, told = command("learn", "digits", f"--set=chain.epochs={'9' * 4000}x")
    assert code == 2
    assert len(told) < 1000


@pytest.mark.parametrize(
    "arguments",
    [
        ("learn", "digits", "--out", ""),
        ("learn", "digits", "--out="),
        ("inspect", ""),
        ("report", "run", "--pictures="),
        ("learn", "digits", "--on", ""),
    ],
)
def test_empty_arguments_are_refused_before_anything_happens(
    arguments, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, said, told = command(*arguments)
    assert (code, said) == (2, "")
    assert told.count("is empty: name a file, a folder (. is the one you are in) or a value") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_text_may_begin_with_nothing(command, text_run):
    assert command("sample", text_run, "--start", "", "--words", 3)[0] == 0
    assert command("sample", text_run, "--start=", "--words", 3)[0] == 0


@pytest.mark.parametrize("threads", ["100000", "0", "-1", "many"])
def test_threads_that_no_machine_has_are_refused(threads, command, class_run):
    code, _, told = command("evaluate", class_run, "--on", "digits", f"--threads={threads}")
    assert code == 2
    assert "--threads" in told
    assert "Traceback" not in told
