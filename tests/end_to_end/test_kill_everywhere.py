"""A run killed at any file operation resumes to the same bits; the script itself visits all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from file_operations import Operations
from kill_everywhere import KINDS, left_by

KILLS = 2
"""Of each kind of run."""
SCRIPT = Path(__file__).with_name("kill_everywhere.py")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "kinds",
    [
        ["digits beside a dense network", "grammar"],
        pytest.param(list(KINDS), marks=pytest.mark.thorough),
    ],
    ids=["two kinds", "all kinds"],
)
def test_runs_killed_at_file_operations_go_on_to_the_same_bits(kinds):
    asked = [sys.executable, str(SCRIPT), f"--kills={KILLS}", *(f"--kind={kind}" for kind in kinds)]
    visited = subprocess.run(asked, capture_output=True, text=True)
    assert visited.returncode == 0, visited.stdout + visited.stderr
    for kind in kinds:
        assert f"{kind}: " in visited.stdout
    assert visited.stdout.count(f" {KILLS} kills, 0 failed") == len(kinds)


COUNTED = """
import os, sys
from pathlib import Path
from file_operations import Operations
folder = Path(sys.argv[1])
operations = Operations(folder, int(sys.argv[2]), sys.argv[3])
operations.watch(sys.addaudithook)
(folder / "inner").mkdir()
with (folder / "first").open("xb") as file:
    file.write(b"0123456789")
    file.flush()
    os.fsync(file.fileno())
(folder / "first").replace(folder / "second")
(folder / "second").unlink()
"""
"""Six operations."""


@pytest.mark.parametrize(
    ("at", "manner", "left"),
    [
        (1, "before", {}),
        (2, "before", {"inner": None}),
        (3, "before", {"inner": None, "first": b""}),
        (3, "amid", {"inner": None, "first": b"01234"}),
        (4, "before", {"inner": None, "first": b"0123456789"}),
        (6, "before", {"inner": None, "second": b"0123456789"}),
        (6, "amid", {"inner": None}),
    ],
)
def test_a_process_ends_at_the_operation_that_was_asked_for(at, manner, left, tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", COUNTED, str(tmp_path), str(at), manner],
        cwd=Path(__file__).parent,
    )
    assert ended.returncode == -9
    assert {p.name: p.read_bytes() if p.is_file() else None for p in tmp_path.iterdir()} == left


def test_changes_that_go_past_the_counting_are_noticed(tmp_path):
    operations = Operations(tmp_path)
    operations._audited("os.remove", (str(tmp_path / "file"), -1))
    operations._audited("open", (str(tmp_path / "file"), "r", 0))
    operations._audited("os.remove", ("/elsewhere/file", -1))
    assert operations.missed == [f"os.remove {str(tmp_path / 'file')!r}"]


def test_what_two_runs_left_differs_only_where_more_than_the_time_differs(tmp_path):
    for name, seconds, error in (("one", 1.0, 0.25), ("two", 2.0, 0.25), ("three", 1.0, 0.5)):
        (tmp_path / name).mkdir()
        text = f'{{"scores": [{{"error": {error}, "seconds": {seconds}}}], "sha256": "{name}"}}'
        (tmp_path / name / "result.json").write_text(text)
    one, two, three = (left_by(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two == {"result.json": {"scores": [{"error": 0.25}]}}
    assert three != one
