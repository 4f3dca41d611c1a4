"""Engines: every job is done, wherever; what goes wrong there is known here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import cloudpickle
import dask
import distributed  # noqa: F401  before its settings are changed: it brings their defaults
import numpy as np
import pytest
import some_jobs
import torch
from torch.utils.data import DataLoader, TensorDataset

import small_runs
import sparsemble
from scenarios import wait_until
from small_runs import Deadly, Gate, network, predictions, recipe
from sparsemble.engines.choosing import engine_on
from sparsemble.engines.places import Place
from sparsemble.engines.processes import Processes
from sparsemble.engines.sending import packed, unpacked
from sparsemble.errors import DivergedError, InputError, SparsembleError
from sparsemble.processes.interrupts import StopRequest
from sparsemble.stages import Callback

pytestmark = pytest.mark.slow

for module in (some_jobs, small_runs):
    cloudpickle.register_pickle_by_value(module)  # for workers elsewhere

RAY = pytest.param("ray", marks=pytest.mark.thorough)
on_every = pytest.mark.parametrize("engine", [2, "dask", "ray"], indirect=True, scope="module")
on_most = pytest.mark.parametrize("engine", [2, "dask", RAY], indirect=True, scope="module")
"""On Ray, which takes long to do anything, where there is time."""


@pytest.fixture(scope="module")
def engine(request):
    if request.param == 2:
        yield request.getfixturevalue("processes")
        return
    # As if every worker were long in coming back, so that Dask would do without it.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}),
        engine_on(request.param, 2) as made,
    ):
        yield made


def done(engine, work, tasks, common=None, hear=lambda *told: None, stop=None):
    stop = stop or StopRequest()
    return dict(engine.run(work, common, tasks, hear=hear, stop=stop))


@on_every
def test_every_task_has_its_result(engine):
    assert engine.size == 2
    heard = []
    results = done(engine, some_jobs.add, [1, 2, 3, 4, 5], 10, lambda *told: heard.append(told))
    assert results == {0: 11, 1: 12, 2: 13, 3: 14, 4: 15}
    assert set(heard) <= {(k, ("adding", k + 1)) for k in range(5)}


@on_most
def test_what_a_job_raises_is_raised_here_and_the_others_are_asked_to_stop(engine):
    with pytest.raises(DivergedError, match="two is too many"):
        done(engine, some_jobs.fail_at_two, [1, 2])
    with pytest.raises(ZeroDivisionError, match="what nobody expects"):
        done(engine, some_jobs.break_down, [1])
    with pytest.raises(TimeoutError, match="no fault of the cluster"):
        done(engine, some_jobs.come_too_late, [1])
    assert done(engine, some_jobs.add, [1], 1) == {0: 2}  # and the engine goes on


@on_most
def test_an_interrupt_stops_all_jobs(engine):
    stop = StopRequest()

    def hear(number, told):
        stop.stop_requested = True

    with pytest.raises(KeyboardInterrupt):
        done(engine, some_jobs.wait_for_word, [1, 2, 3], hear=hear, stop=stop)


@on_most
def test_one_job_can_be_asked_to_stop(engine):
    jobs = engine.run(
        some_jobs.wait_for_word,
        None,
        [1, 2],
        hear=lambda number, told: number == 1,
        stop=StopRequest(),
    )
    assert next(jobs) == (1, "stopped")
    jobs.close()


def test_a_word_to_stop_reaches_the_job_it_was_meant_for_and_no_other(processes):
    process = processes.take()
    try:
        process.ask_to_stop()  # too late for a job that has just ended
        process.do(packed((some_jobs.is_asked, None)), packed(0))
        assert unpacked(process.connection.recv_bytes()) == ("done", False)
        process.do(packed((some_jobs.is_asked_soon, None)), packed(0))
        process.ask_to_stop()  # before the process knows of the job
        assert unpacked(process.connection.recv_bytes()) == ("done", True)
    finally:
        processes.give_back(process)


@on_most
def test_a_job_whose_process_is_killed_is_run_again(engine, tmp_path):
    assert done(engine, some_jobs.die_at_first, [5, 6], str(tmp_path)) == {0: 5, 1: 6}
    assert len(list(tmp_path.iterdir())) == 4


def test_a_job_that_always_kills_its_process_is_given_up():
    with Processes(1) as engine, pytest.raises(SparsembleError, match=r"3 times \(signal SIGKILL"):
        done(engine, some_jobs.always_die, [1])


def four_chains(epochs=12):
    chain = {"chains": 4, "epochs": epochs, "burn_in": epochs - 4}
    return recipe(chain=recipe().chain.model_copy(update=chain))


@pytest.fixture(scope="module")
def here(arrays):
    """What a run in this process gives."""
    return sparsemble.learn(network, arrays, four_chains())


def assert_same(run, other, arrays):
    assert np.array_equal(predictions(run, arrays), predictions(other, arrays))
    assert run.history.samples == other.history.samples
    records = [[(r.chain, r.epoch, r.loss) for r in each.history.epochs] for each in (run, other)]
    assert records[0] == records[1]


@on_most
def test_a_run_whose_workers_are_killed_twice_has_the_bits_of_one_here(engine, arrays, tmp_path):
    deadly = Deadly(arrays, tmp_path)
    here = sparsemble.learn(network, deadly, four_chains())
    there = sparsemble.learn(network, deadly, four_chains(), folder=tmp_path / "run", on=engine)
    assert [mark.exists() for mark in deadly.marks] == [True, True]
    assert_same(there, here, arrays)
    again = sparsemble.learn(network, deadly, four_chains(), folder=tmp_path / "run")
    assert_same(again, here, arrays)


def test_a_run_stopped_here_goes_on_elsewhere(processes, arrays, here, tmp_path):
    class Stop(Callback):
        def epoch_ended(self, record):
            if (record.chain, record.epoch) == (1, 9):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sparsemble.learn(network, arrays, four_chains(), folder=tmp_path, callback=Stop())
    there = sparsemble.learn(network, arrays, four_chains(), folder=tmp_path, on=processes)
    assert_same(there, here, arrays)


def test_workers_that_do_not_see_the_folder_send_what_they_made(
    processes, arrays, here, tmp_path, monkeypatch
):
    monkeypatch.setattr(Processes, "is_here", False)
    monkeypatch.setattr(
        "sparsemble.learning.remote_parts.marked",
        lambda folder: nullcontext(Place(folder.absolute(), "no such mark")),
    )
    there = sparsemble.learn(network, arrays, four_chains(), folder=tmp_path, on=processes)
    assert_same(there, here, arrays)
    assert len(list((tmp_path / "chain").glob("*/checkpoint.safetensors"))) == 4


def test_a_traced_network_can_be_learned_elsewhere(processes, arrays):
    runs = [
        sparsemble.learn(Gate, arrays, recipe(prune=None, retrain=None), on=on)
        for on in (None, processes)
    ]
    assert np.array_equal(*(predictions(run, arrays) for run in runs))


def test_a_silent_port_is_no_scheduler(monkeypatch):
    monkeypatch.setattr("sparsemble.engines.dask._PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match="no Dask scheduler answers"), engine_on(address):
            pass


def test_what_a_process_cannot_find_is_told(processes):
    class Local:
        def __reduce__(self):
            return (getattr, (some_jobs, "what is not there"))

    with pytest.raises(InputError, match="a job needs what its process does not find"):
        done(processes, some_jobs.add, [1], Local())


def test_a_run_without_a_folder_can_be_made_elsewhere(arrays, here):
    assert_same(sparsemble.learn(network, arrays, four_chains(), on=1), here, arrays)


def test_a_worker_with_another_version_is_refused_and_a_scheduler_that_is_lost_is_told(
    arrays, here, tmp_path, monkeypatch
):
    with cluster(tmp_path) as (address, scheduler):
        with monkeypatch.context() as patch:
            patch.setattr("sparsemble.engines.dask.versions", lambda: {"sparsemble": "9.9.9"})
            with pytest.raises(InputError) as told:
                sparsemble.learn(network, arrays, four_chains(), on=address)
        assert "the worker at tcp://127.0.0.1" in str(told.value)
        assert "install sparsemble==9.9.9 there" in str(told.value)

        class Lose(Callback):
            def epoch_ended(self, record):
                if record.epoch == 9:
                    scheduler.kill()

        with pytest.raises(SparsembleError, match="scheduler was lost"):
            sparsemble.learn(
                *(network, arrays, four_chains()),
                folder=tmp_path / "run",
                on=address,
                callback=Lose(),
            )
    # What was finished is taken; the rest is learned here.
    assert_same(
        sparsemble.learn(network, arrays, four_chains(), folder=tmp_path / "run"), here, arrays
    )


@contextmanager
def cluster(folder):
    """A scheduler and a worker of Dask's, as people start them."""
    file = folder / "scheduler.json"
    common = [sys.executable, "-m", "dask"]
    options = [f"--scheduler-file={file}", "--no-dashboard"]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    scheduler, worker = (
        subprocess.Popen(
            [*common, *own, *options],
            env=here,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for own in (
            ("scheduler", "--host=127.0.0.1", "--port=0"),
            ("worker", "--nthreads=1", "--death-timeout=20"),
        )
    )
    try:
        wait_until(lambda: file.exists() and '"address"' in file.read_text())
        yield json.loads(file.read_text())["address"], scheduler
    finally:
        for process in (scheduler, worker):
            process.terminate()
            process.wait()


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("nonsense", "on = 'nonsense': write dask, ray, or the address"),
        ("tcp://nowhere", "write a scheduler's address, as tcp://host:8786"),
        ("foo://", "write a scheduler's address, as tcp://host:8786"),
        (0, "jobs = 0: give a number of processes"),
    ],
)
def test_what_is_not_there_is_told(on, message, monkeypatch):
    monkeypatch.setattr("sparsemble.engines.dask._PATIENCE", 0.5)
    with pytest.raises(InputError) as told, engine_on(on):
        pass
    assert message in str(told.value)


def test_processes_import_nothing_from_the_folder_they_are_started_in(tmp_path, monkeypatch):
    for name in ("random", "json", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from here')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    with Processes(1) as engine:
        assert done(engine, some_jobs.add, [1, 2], 10) == {0: 11, 1: 12}


@pytest.mark.parametrize("kind", ["examples", "loader", "text"])
def test_what_a_chain_is_judged_on_can_be_sent_without_cloudpickle(kind, monkeypatch):
    """The last sample of a chain that has patience depends on them."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    if kind == "text":
        corpus = sparsemble.grammar()
        task, data = sparsemble.LanguageModelling().training(corpus).task, corpus.part("validation")
    else:
        train, _ = sparsemble.digits()
        task = sparsemble.Classification(num_classes=10, input_shape=(64,))
        pairs = TensorDataset(train.inputs, train.targets)
        data = DataLoader(pairs, 500) if kind == "loader" else train
    held = task.evaluation(data)
    sent = unpacked(packed(held))
    (before, _), (after, _) = (next(iter(each.batches())) for each in (held, sent))
    assert torch.equal(before, after)
