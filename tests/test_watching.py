"""A run beside another one, in a process of its own."""

from __future__ import annotations

import io
import os
import signal
from contextlib import suppress

import pytest
import torch
from rich.console import Console

from scenarios import LONG, QUICK, wait_until
from sparsemble.errors import InputError, SparsembleError
from sparsemble.recipes import load_recipe
from sparsemble.runs.results import read_result, run_recipe
from sparsemble.runs.watching import Watch, watch_beside

BESIDE = (
    *("chain.epochs=2", "chain.burn_in=0", "chain.interval=1", "network.hidden=[6]"),
    *("retrain.epochs=1", "data.portion=0.01"),
)


@pytest.fixture
def watch():
    return Watch(Console(file=io.StringIO(), soft_wrap=True))


def saved(folder):
    return {path.name: path.read_bytes() for path in (folder / "ensemble").iterdir()}


def test_a_run_beside_gives_the_bits_it_gives_alone(tmp_path, watch):
    recipe = load_recipe("digits", QUICK)
    with watch_beside(recipe, tmp_path / "beside", watch, threads=1) as beside:
        alone = run_recipe(recipe, tmp_path / "alone")
        result = beside.result()
    assert result.metrics == alone.metrics
    assert saved(tmp_path / "beside") == saved(tmp_path / "alone")
    assert f"digits: {tmp_path / 'beside'} takes at most" in watch.console.file.getvalue()


def test_an_exception_stops_the_run_beside_and_it_saves(tmp_path, watch):
    beside = watch_beside(load_recipe("digits", LONG), tmp_path, watch, threads=1)
    with suppress(KeyboardInterrupt), beside:
        wait_until((tmp_path / "chain" / "stage.json").exists)
        raise KeyboardInterrupt
    assert beside.exit_code == 130
    assert list((tmp_path / "chain").glob("checkpoint*"))


def test_an_error_over_there_is_raised_here(tmp_path, watch):
    recipe = load_recipe("grammar", {"data.name": "text", "data.path": "nowhere"})
    with (
        pytest.raises(InputError, match="nowhere does not exist"),
        watch_beside(recipe, tmp_path, watch, threads=1) as beside,
    ):
        beside.result()
    assert "nowhere does not exist" in watch.console.file.getvalue()


def test_a_run_beside_that_is_killed_is_told(tmp_path, watch):
    with watch_beside(load_recipe("digits", LONG), tmp_path, watch, threads=1) as beside:
        wait_until((tmp_path / "run.json").exists)
        os.kill(beside.pid, signal.SIGKILL)
        with pytest.raises(SparsembleError, match="ended with code -9"):
            beside.result()


def test_what_nobody_can_read_does_not_stop_the_listening(tmp_path, watch):
    watch.console.file.close()
    with watch_beside(load_recipe("digits", QUICK), tmp_path, watch, threads=1) as beside:
        assert beside.result().recipe.name == "digits"


def test_learn_trains_the_baseline_beside_on_half_of_the_threads(command, tmp_path):
    arguments = [f"--set={change}" for change in BESIDE]
    code, out, _ = command(
        "learn", "grammar", "--threads=2", f"--out={tmp_path / 'run'}", *arguments
    )
    assert code == 0
    assert "grammar-sgd" in out
    results = [tmp_path / "run" / "result.json", tmp_path / "run" / "baseline" / "result.json"]
    assert [read_result(result).provenance["threads"] for result in results] == [1, 1]
    known = read_result(results[1])
    results[1].unlink()
    torch.set_num_threads(2)
    code, _, err = command("resume", tmp_path / "run")
    assert code == 0
    assert "nothing is left to do" not in err
    assert read_result(results[1]).metrics == known.metrics
