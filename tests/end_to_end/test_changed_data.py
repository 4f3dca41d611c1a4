"""A finished run and data that are no longer those it learned from."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios import QUICK

pytestmark = pytest.mark.slow

CHANGES = [f"--set={key}={value}" for key, value in QUICK.items() if key != "baseline"]


def write(path, count):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, 2))
    lines = [f"{a:.6f},{b:.6f},{'up' if a * b > 0 else 'down'}" for a, b in rows]
    path.write_text("\n".join(["a,b,way", *lines]))


def test_a_finished_run_is_not_judged_on_other_data(command, tmp_path):
    table, run = tmp_path / "table.csv", tmp_path / "run"
    learn = ("learn", "digits", f"--csv={table}", "--target=way", "--hidden=8", f"--out={run}")
    write(table, 150)
    assert command(*learn, *CHANGES)[0] == 0
    verdict = (run / "verdict.json").read_bytes()
    code, _, told = command(*learn, *CHANGES)
    assert code == 0
    assert "nothing is left to do" in told
    assert (run / "verdict.json").read_bytes() == verdict  # not judged, nor timed, again
    write(table, 400)
    again = [
        (*learn, *CHANGES),
        (*learn, "--baseline=small", *CHANGES),
        ("resume", run, f"--read={table}"),
        ("report", run, f"--read={table}"),
    ]
    for each in again:
        code, _, told = command(*each)
        assert code == 2
        assert f"{run} was learned on other data than its recipe names now" in told
    assert (run / "verdict.json").read_bytes() == verdict


def test_members_are_not_chosen_on_what_was_learned_from_in_the_meantime(command, tmp_path):
    table = tmp_path / "table.csv"
    write(table, 150)
    runs = [tmp_path / name for name in "ab"]
    aside = ("--set=data.validation=30", "--baseline=none")
    for seed, run in enumerate(runs):
        learn = ("learn", "digits", f"--csv={table}", "--target=way", "--hidden=8")
        assert command(*learn, f"--out={run}", f"--set=seed={seed}", *aside, *CHANGES)[0] == 0
    merge = ("merge", *runs, f"--out={tmp_path / 'both'}", "--budget=flops=9", f"--read={table}")
    assert command(*merge)[0] == 0
    write(table, 400)
    code, _, told = command(*merge)
    assert code == 2
    assert "was learned on other data" in told
