"""Whole runs as jobs: made in processes of their own, to the bits they have here."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from scenarios import LONG, QUICK, is_free, wait_until
from small_runs import saved_ensemble
from sparsemble.engines.places import files_in
from sparsemble.errors import DivergedError, InputError
from sparsemble.processes.interrupts import StopRequest
from sparsemble.recipes import load_recipe
from sparsemble.results import read_result, run_recipe
from sparsemble.results.orders import Order, _patterns, make_runs

pytestmark = pytest.mark.slow


def made(engine, folder, *orders, stop=None, hear=lambda *told: None):
    return dict(make_runs([orders], folder, engine, stop=stop or StopRequest(), hear=hear))[0]


def test_a_run_made_elsewhere_has_the_bits_it_has_here(processes, tmp_path):
    recipe = load_recipe("digits", QUICK)
    heard = []
    (result,) = made(
        processes, tmp_path, Order(recipe, "there"), hear=lambda order, told: heard.append(told[0])
    )
    alone = run_recipe(recipe, tmp_path / "here")
    assert result.scores == alone.scores == read_result(tmp_path / "there" / "result.json").scores
    assert saved_ensemble(tmp_path / "there") == saved_ensemble(tmp_path / "here")
    assert {"planned", "started", "epoch_ended", "measured"} <= set(heard)


def test_a_run_that_is_asked_to_stop_saves_and_the_next_of_its_batch_does_not_begin(
    processes, tmp_path
):
    recipe = load_recipe("digits", LONG)
    orders = [Order(recipe, "first"), Order(recipe.model_copy(update={"seed": 1}), "second")]
    assert made(processes, tmp_path, *orders, hear=lambda *told: True) == [None, None]
    assert list((tmp_path / "first" / "chain" / "0000").glob("checkpoint*"))
    assert not (tmp_path / "second").exists()


def test_an_interrupt_lets_runs_save(processes, tmp_path):
    stop = StopRequest()
    folder = tmp_path / "run"

    def interrupt():
        wait_until((folder / "chain" / "0000" / "trace.jsonl").exists)
        stop.stop_requested = True

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        made(processes, tmp_path, Order(load_recipe("digits", LONG), "run"), stop=stop)
    assert list((folder / "chain" / "0000").glob("checkpoint*"))
    assert is_free(folder)


def test_runs_save_when_the_process_that_asked_for_them_is_killed(tmp_path):
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from scenarios import LONG\n"
        "from sparsemble.engines.processes import Processes\n"
        "from sparsemble.processes.interrupts import StopRequest\n"
        "from sparsemble.recipes import load_recipe\n"
        "from sparsemble.results.orders import Order, make_runs\n"
        "order = Order(load_recipe('digits', LONG), 'run')\n"
        f"runs = make_runs([[order]], Path({str(tmp_path)!r}), Processes(1),\n"
        "    stop=StopRequest(), hear=lambda *told: None)\n"
        "list(runs)\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n" + script]
    )
    part = tmp_path / "run" / "chain" / "0000"
    try:
        wait_until((part / "trace.jsonl").exists)
    finally:
        starter.kill()
        starter.wait()
    wait_until(lambda: bool(list(part.glob("checkpoint*"))))
    wait_until(lambda: is_free(tmp_path / "run"))


def test_an_error_over_there_is_raised_here(processes, tmp_path):
    recipe = load_recipe("grammar", {"data.name": "text", "data.path": "nowhere"})
    with pytest.raises(InputError, match="nowhere does not exist"):
        made(processes, tmp_path, Order(recipe, "run"))


def test_a_divergence_over_there_is_what_comes_of_the_run(processes, tmp_path):
    recipe = load_recipe("digits", {**QUICK, "chain.schedule.lr": 1e9})
    (outcome,) = made(processes, tmp_path, Order(recipe, "run"))
    assert isinstance(outcome, DivergedError)
    assert "lower the learning rate" in str(outcome)


def test_files_of_a_run_whose_name_holds_brackets_are_sent(tmp_path):
    order = Order(load_recipe("digits"), "point-hidden[64, 32]")
    kept = tmp_path / order.folder / "chain" / "0000" / "checkpoint.safetensors"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"state")
    assert list(files_in(tmp_path, _patterns([order])).values()) == [b"state"]
