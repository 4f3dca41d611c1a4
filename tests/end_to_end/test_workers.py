"""A run beside another one, in a process of its own."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from scenarios import LONG, QUICK, is_free, wait_until
from small_runs import saved_ensemble
from sparsemble.errors import DivergedError, InputError, SparsembleError
from sparsemble.processes.workers import Worker
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.results import read_result, run_recipe
from sparsemble.runs import RunFolder

pytestmark = pytest.mark.slow


@pytest.fixture
def console():
    return Console(file=io.StringIO(), soft_wrap=True)


def claimed(folder: Path, recipe: Recipe) -> Path:
    """A run that has only to be begun."""
    with RunFolder(folder).locked() as run:
        run.claim(recipe, threads=1)
    return folder


def test_a_run_beside_gives_the_bits_it_gives_alone(tmp_path, console):
    recipe = load_recipe("digits", QUICK)
    worker = Worker(claimed(tmp_path / "beside", recipe), console=console)
    alone = run_recipe(recipe, tmp_path / "alone")
    worker.wait()
    assert read_result(tmp_path / "beside" / "result.json").scores == alone.scores
    assert saved_ensemble(tmp_path / "beside") == saved_ensemble(tmp_path / "alone")
    assert f"digits: {tmp_path / 'beside'} takes at most" in console.file.getvalue()


def test_a_run_beside_that_is_asked_to_stop_saves(tmp_path, console):
    worker = Worker(claimed(tmp_path, load_recipe("digits", LONG)), console=console)
    wait_until((tmp_path / "chain" / "stage.json").exists)
    worker.stop()
    with pytest.raises(SparsembleError, match=r"ended with code 130 .*stopped and saved"):
        worker.wait()
    assert list((tmp_path / "chain").glob("checkpoint*"))


def test_a_run_beside_saves_when_the_process_that_started_it_is_killed(tmp_path):
    claimed(tmp_path, load_recipe("digits", LONG))
    script = (
        "from pathlib import Path\n"
        "from sparsemble.processes.workers import Worker\n"
        f"worker = Worker(Path({str(tmp_path)!r}))\n"
        "print(worker.pid, flush=True)\n"
        "worker.join()\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        wait_until((tmp_path / "chain" / "stage.json").exists)
    finally:
        starter.kill()
        starter.wait()
        starter.stdout.close()
    wait_until(lambda: bool(list((tmp_path / "chain").glob("checkpoint*"))))
    wait_until(lambda: is_free(tmp_path))


def test_an_error_over_there_is_raised_here(tmp_path, console):
    recipe = load_recipe("grammar", {"data.name": "text", "data.path": "nowhere"})
    with pytest.raises(InputError, match="nowhere does not exist"):
        Worker(claimed(tmp_path, recipe), console=console).wait()
    assert "nowhere does not exist" in console.file.getvalue()


def test_a_divergence_over_there_is_a_divergence_here(tmp_path):
    recipe = load_recipe("digits", {**QUICK, "chain.schedule.lr": 1e9})
    with pytest.raises(DivergedError, match="lower the learning rate"):
        Worker(claimed(tmp_path, recipe)).wait()


def test_a_run_beside_that_is_killed_is_told(tmp_path):
    worker = Worker(claimed(tmp_path, load_recipe("digits", LONG)))
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(SparsembleError, match="ended with code -9"):
        worker.wait()


def test_what_nobody_can_read_does_not_stop_the_listening(tmp_path, console):
    console.file.close()
    worker = Worker(claimed(tmp_path, load_recipe("digits", QUICK)), console=console)
    worker.wait()
    assert read_result(tmp_path / "result.json").recipe.name == "digits"
