"""Engines: every job is done, wherever; what goes wrong there is known here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import cloudpickle
import numpy as np
import psutil
import pytest
import some_jobs

import small_runs
import sparsemble
from scenarios import wait_until
from small_runs import Gate, network, predictions, recipe
from sparsemble.engines.choosing import engine_on
from sparsemble.engines.places import Place
from sparsemble.engines.processes import Processes
from sparsemble.errors import DivergedError, InputError, SparsembleError
from sparsemble.processes.interrupts import StopRequest
from sparsemble.stages import Callback

for module in (some_jobs, small_runs):
    cloudpickle.register_pickle_by_value(module)  # for workers elsewhere

ENGINES = [
    2,
    pytest.param("dask", marks=pytest.mark.slow),
    pytest.param("ray", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=ENGINES, ids=str)
def engine(request):
    with engine_on(request.param, 2) as made:
        yield made


def done(engine, work, tasks, common=None, hear=lambda *told: None, stop=None):
    stop = stop or StopRequest()
    return dict(engine.run(work, common, tasks, hear=hear, stop=stop))


def test_every_task_has_its_result(engine):
    assert engine.size == 2
    heard = []
    results = done(engine, some_jobs.add, [1, 2, 3, 4, 5], 10, lambda *told: heard.append(told))
    assert results == {0: 11, 1: 12, 2: 13, 3: 14, 4: 15}
    assert set(heard) <= {(k, ("adding", k + 1)) for k in range(5)}


def test_what_a_job_raises_is_raised_here_and_the_others_are_asked_to_stop(engine):
    with pytest.raises(DivergedError, match="two is too many"):
        done(engine, some_jobs.fail_at_two, [1, 2])
    with pytest.raises(ZeroDivisionError, match="what nobody expects"):
        done(engine, some_jobs.break_down, [1])
    with pytest.raises(TimeoutError, match="no fault of the cluster"):
        done(engine, some_jobs.come_too_late, [1])
    assert done(engine, some_jobs.add, [1], 1) == {0: 2}  # and the engine goes on


def test_an_interrupt_stops_all_jobs(engine):
    stop = StopRequest()

    def hear(number, told):
        stop.made = True

    with pytest.raises(KeyboardInterrupt):
        done(engine, some_jobs.wait_for_word, [1, 2, 3], hear=hear, stop=stop)


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


def test_a_job_whose_process_is_killed_is_run_again(engine, tmp_path):
    assert done(engine, some_jobs.die_at_first, [5, 6], str(tmp_path)) == {0: 5, 1: 6}
    assert len(list(tmp_path.iterdir())) == 4


def test_a_job_that_always_kills_its_process_is_given_up():
    with Processes(1) as engine, pytest.raises(SparsembleError, match=r"3 times \(signal SIGKILL"):
        done(engine, some_jobs.always_die, [1])


def four_chains(epochs=12):
    chain = {"chains": 4, "epochs": epochs, "burn_in": epochs - 4}
    return recipe(chain=recipe().chain.model_copy(update=chain))


LONG_ENOUGH = 150
"""Epochs of chains that are under way for a while, so that something can happen to them."""


@pytest.fixture(scope="module")
def processes():
    with Processes(2) as engine:
        yield engine


@pytest.fixture(scope="module")
def here(arrays):
    """What a run in this process gives."""
    return sparsemble.learn(network, arrays, four_chains())


def assert_same(run, other, arrays):
    assert np.array_equal(predictions(run, arrays), predictions(other, arrays))
    assert run.history.samples == other.history.samples
    records = [[(r.chain, r.epoch, r.loss) for r in each.history.epochs] for each in (run, other)]
    assert records[0] == records[1]


class KillWorkers(Callback):
    """Kills a process of the engine at the first epoch, and again at a later one."""

    def __init__(self, engine):
        self.engine = engine
        self.at = [3, LONG_ENOUGH]
        self.epochs = 0
        self.killed = []

    def epoch_ended(self, record):
        self.epochs += record.stage == "chain"
        alive = set(workers(self.engine)) - set(self.killed) if self.at else set()
        if alive and self.epochs >= self.at[0]:
            self.at.pop(0)
            self.killed.append(alive.pop())
            os.kill(self.killed[-1], signal.SIGKILL)


def workers(engine):
    """The processes that work for an engine, whichever it is."""
    if hasattr(engine, "_client"):
        return engine._client.run(os.getpid, on_error="ignore").values()
    if hasattr(engine, "_ray"):
        return [p.pid for p in psutil.process_iter() if p.name().startswith("ray::_do")]
    alive = (p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE)
    return [p.pid for p in alive if "sparsemble.engines.child" in p.cmdline()]


def test_a_run_whose_workers_are_killed_twice_has_the_bits_of_one_here(engine, arrays, tmp_path):
    killer, chosen = KillWorkers(engine), four_chains(LONG_ENOUGH)
    here = sparsemble.learn(network, arrays, chosen)
    there = sparsemble.learn(network, arrays, chosen, folder=tmp_path, on=engine, callback=killer)
    assert len(killer.killed) == 2
    assert_same(there, here, arrays)
    again = sparsemble.learn(network, arrays, chosen, folder=tmp_path)
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
    assert_same(sparsemble.learn(network, arrays, four_chains(), on=2), here, arrays)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_told_and_the_run_goes_on_here(arrays, here, tmp_path):
    with cluster(tmp_path) as (address, scheduler):

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
    assert_same(
        sparsemble.learn(network, arrays, four_chains(), folder=tmp_path / "run"), here, arrays
    )


@pytest.mark.slow
def test_a_worker_with_another_version_is_refused(arrays, monkeypatch, tmp_path):
    monkeypatch.setattr("sparsemble.engines.dask.versions", lambda: {"sparsemble": "9.9.9"})
    with cluster(tmp_path) as (address, _), pytest.raises(InputError) as told:
        sparsemble.learn(network, arrays, four_chains(), on=address)
    assert "the worker at tcp://127.0.0.1" in str(told.value)
    assert "install sparsemble==9.9.9 there" in str(told.value)


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
