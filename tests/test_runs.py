"""Runs people can trust: interrupts, full disks, and code of the user's own."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from types import SimpleNamespace

import pytest
import torch

from scenarios import LONG, QUICK, wait_until
from sparsemble.data import digits, grammar
from sparsemble.errors import CorruptFileError, DiskFullError, InputError
from sparsemble.recipes import load_recipe
from sparsemble.runs import learn
from sparsemble.runs.disk import disk_needed
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.interrupts import stop_requests
from sparsemble.runs.results import _text_metrics
from sparsemble.stages import Observer
from sparsemble.store import read_json, write_json


def run(folder, observer=None):
    train, _ = digits()
    recipe = load_recipe("digits", QUICK)
    network = recipe.network
    return learn(lambda: network.build(train), train, recipe, folder=folder, observer=observer)


def saved(folder):
    return {path.name: path.read_bytes() for path in (folder / "ensemble").iterdir()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The ensemble of a run nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return saved(folder)


class SignalAt(Observer):
    """Sends this process a signal at one step of a stage."""

    def __init__(self, stage, step, number):
        self.at = (stage, step)
        self.number = number
        self.last = None
        self.stage = ""

    def started(self, stage, chain, chains, done, total):
        self.stage = stage

    def stepped(self, chain, step, loss, save):
        self.last = (self.stage, step)
        if self.last == self.at:
            os.kill(os.getpid(), self.number)


@pytest.fixture
def listening():
    """Interrupts as in a terminal: a test run in the background inherits that they are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [("chain", 20), ("retrain", 5)])
def test_a_signal_stops_after_the_next_step_and_loses_nothing(
    number, at, tmp_path, whole, listening
):
    observer = SignalAt(*at, number)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, observer)
    stage, step = at
    folder = RunFolder(tmp_path)
    state = (folder.chain if stage == "chain" else folder.retrain).checkpoint()
    assert state.numbers["step"] == step + 1
    assert observer.last == at  # the step after it was saved, and not told to anyone
    run(tmp_path)
    assert saved(tmp_path) == whole


def test_signals_mean_what_they_meant_once_a_run_is_over(tmp_path, listening):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run(tmp_path)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("writes", [1, 2, 4, 7])
def test_a_full_disk_stops_the_run_and_loses_nothing(writes, tmp_path, whole, monkeypatch):
    done = 0

    def fsync(handle, real=os.fsync):
        nonlocal done
        done += 1
        if done > 2 * writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr("sparsemble.store.files.os.fsync", fsync)
        with pytest.raises(DiskFullError, match="no space left to write"):
            run(tmp_path)
    assert not [p for p in tmp_path.rglob(".*") if p.name != ".lock"]  # nothing half-written
    run(tmp_path)
    assert saved(tmp_path) == whole


def test_a_run_that_could_fill_the_disk_does_not_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sparsemble.runs.disk.shutil.disk_usage", lambda _: SimpleNamespace(free=10_000)
    )
    with pytest.raises(InputError, match=r"may grow by \d+ MB, but the disk has only 0 MB left"):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_a_run_may_take_is_told_and_not_exceeded(tmp_path):
    class Plan(Observer):
        def planned(self, folder, needed):
            self.folder, self.needed = folder, needed

    plan = Plan()
    run(tmp_path, plan)
    taken = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert plan.folder == tmp_path
    assert taken <= plan.needed <= 20 * taken


MODULE = """
    import torch
    from sklearn.datasets import load_iris
    from torch import nn
    from sparsemble.layouts import feedforward_layout
    from dataclasses import replace

    def data():
        x, y = load_iris(return_X_y=True)
        order = torch.randperm(150, generator=torch.Generator().manual_seed(0)).numpy()
        x, y = x[order], y[order]
        return (x[:100], y[:100]), (x[100:], y[100:])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

        def forward(self, x):
            return self.body(x)

    def network():
        made = Net()
        inner = feedforward_layout(made.body)
        def named(slot):
            return replace(slot, parameter=f"body.{slot.parameter}")
        layout = replace(
            inner,
            slots=tuple(map(named, inner.slots)),
            families=tuple(replace(f, slots=tuple(map(named, f.slots))) for f in inner.families),
            matrices=tuple(
                replace(m, parameters=tuple(f"body.{p}" for p in m.parameters))
                for m in inner.matrices
            ),
            name="mine",
        )
        return made, layout
"""
RECIPE = """
    [data]
    name = "custom"
    loader = "own_code:data"
    [network]
    kind = "custom"
    factory = "own_code:network"
    [prior]
    kind = "group-sparse"
    penalty = 1e-3
    [chain]
    epochs = 12
    burn_in = 4
    interval = 4
    batch_size = 10
    [chain.sampler]
    temperature = 1e-3
    [chain.schedule]
    kind = "constant"
    rate = 0.1
    [prune]
    sparsity = 0.5
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """A folder with a module and a recipe of the user's, where the user stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_code.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "mine.toml").write_text(textwrap.dedent(RECIPE))


@pytest.mark.usefixtures("own_code")
def test_code_of_ones_own_is_run_only_when_it_is_named(command, tmp_path):
    assert command("learn", "mine.toml", "--out", "run", "--quiet")[0] == 0
    (tmp_path / "run" / "result.json").unlink()
    code, _, err = command("resume", "run")
    assert code == 2
    assert "name it with --code own_code:data --code own_code:network" in err
    both = ("--code", "own_code:data", "--code", "own_code:network")
    assert command("resume", "run", "--quiet", *both)[0] == 0
    code, _, err = command("inspect", "run")
    assert code == 2
    assert "networks of your own" in err
    code, out, _ = command("inspect", "run", "--code", "own_code:network")
    assert code == 0
    assert "2 classifiers, mine" in out


@pytest.mark.usefixtures("own_code")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("network.factory=own_code:nothing", "module 'own_code' has no function 'nothing'"),
        ("network.factory=nowhere:make", "cannot import 'nowhere'"),
        ("network.factory=os.system", "factory = 'os.system'"),
        ("network.factory=own_code:data", "must return a torch module"),
        ("data.loader=own_code:network", "must return (train, test), each a Dataset or a pair"),
    ],
)
def test_code_that_does_not_do_is_told(command, change, message):
    code, _, err = command("learn", "mine.toml", "--set", change)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.usefixtures("own_code")
def test_tensorboard_gets_the_traces_scalars(command, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert command("learn", "mine.toml", "--out", "run", "--quiet", "--tensorboard")[0] == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    losses = events.Scalars("chain-0/loss")
    trace = RunFolder(tmp_path / "run").chain.history().epochs
    assert [event.step for event in losses] == [record.epoch for record in trace]
    assert [event.value for event in losses] == pytest.approx([record.loss for record in trace])


def test_a_second_process_is_kept_out_of_a_run(command, tmp_path):
    folder = tmp_path / "run"
    arguments = ("learn", "digits", "--threads=1", f"--out={folder}")
    changes = [f"--set={key}={value}" for key, value in LONG.items()]
    first = subprocess.Popen(
        [sys.executable, "-m", "sparsemble", *arguments, *changes],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until((folder / "chain" / "stage.json").exists)
        code, _, err = command("resume", folder, "--quiet")
        assert code == 2
        assert err == f"sparsemble: {folder} is in use by another process; " + (
            "wait for it or use another folder\n"
        )
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    with RunFolder(folder).locked():
        pass  # a killed process holds nothing


def test_a_run_remembers_that_it_shares_the_samples_beside_it(command, tmp_path):
    train, _ = digits()
    recipe = load_recipe("digits", QUICK)
    network = recipe.network
    shared = tmp_path / "samples"
    learn(
        lambda: network.build(train),
        train,
        recipe,
        folder=tmp_path / "run",
        samples_folder=shared,
    )
    assert not (tmp_path / "run" / "chain").exists()
    assert RunFolder(tmp_path / "run").chain.path == shared
    assert command("resume", tmp_path / "run", "--quiet")[0] == 0
    assert command("report", tmp_path / "run")[0] == 0
    assert not (tmp_path / "run" / "chain").exists()


def test_a_shared_chain_goes_on_with_the_threads_it_was_begun_with(tmp_path):
    train, _ = digits()
    recipe = load_recipe("digits", QUICK)

    def begin(name, threads):
        torch.set_num_threads(threads)
        learn(
            lambda: recipe.network.build(train),
            train,
            recipe,
            folder=tmp_path / name,
            samples_folder=tmp_path / "samples",
        )
        return RunFolder(tmp_path / name).begun()["threads"]

    outside = torch.get_num_threads()
    try:
        assert [begin("first", 1), begin("second", 2)] == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(outside)


def test_a_run_whose_random_numbers_were_drawn_otherwise_does_not_go_on(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr("sparsemble.runs.learning.STREAMS", 0)
    with pytest.raises(InputError, match="begun by another version of sparsemble"):
        run(tmp_path)


def test_a_language_models_disk_space_is_that_of_one_retraining_at_a_time(tmp_path):
    recipe = load_recipe("grammar")
    network = recipe.network.build(grammar())
    weights = 4 * sum(p.numel() for p in network.parameters())
    # Four samples, four states of the chain with a buffer each, three ensembles of a quarter,
    # four retrained members, and four states of the one under way.
    assert disk_needed(network, recipe, 150) == (4 + 8 + 3 + 4 + 4) * weights


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp", "", 3])
def test_a_run_cannot_send_its_samples_anywhere_else(name, tmp_path):
    write_json(tmp_path / "run" / "run.json", {"recipe": {}, "samples": name})
    with pytest.raises(CorruptFileError, match=r"samples = .*: is not a folder beside it"):
        _ = RunFolder(tmp_path / "run").chain


def test_a_run_folder_cannot_name_a_baseline_of_its_own(command, tmp_path):
    folder = tmp_path / "run"
    run(folder)
    described = read_json(folder / "run.json")
    described["recipe"]["baseline"] = str(tmp_path / "evil.toml")
    write_json(folder / "run.json", described)
    (folder / "baseline").mkdir()
    (tmp_path / "evil.toml").write_text('extends = "digits"\n')
    code, _, err = command("resume", folder, "--quiet")
    assert code == 2
    assert "is not a built-in recipe" in err


def test_a_run_goes_on_where_the_disk_has_room_for_the_rest(tmp_path, monkeypatch):
    run(tmp_path / "run")
    taken = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    recipe = load_recipe("digits", QUICK)
    needed = disk_needed(recipe.network.build(digits()[0]), recipe, 29)
    free = SimpleNamespace(free=needed - taken + 1000)
    monkeypatch.setattr("sparsemble.runs.disk.shutil.disk_usage", lambda _: free)
    run(tmp_path / "run")
    with pytest.raises(InputError, match="may grow by"):
        run(tmp_path / "other")


def test_a_run_stopped_while_its_baseline_is_trained_can_be_resumed(command, tmp_path, monkeypatch):
    quick = ["chain.epochs=2", "chain.burn_in=0", "chain.interval=1", "network.hidden=[6]"]
    quick += ["retrain.epochs=1", "data.portion=0.01", "baseline=digits"]
    monkeypatch.setattr("sparsemble.recipes.files.baseline_of", small_baseline)
    monkeypatch.setattr("sparsemble.runs.results._text_metrics", interrupted)
    arguments = [f"--set={change}" for change in quick]
    code, _, err = command("learn", "grammar", f"--out={tmp_path / 'run'}", *arguments)
    assert code == 130
    assert f"go on with: sparsemble resume {tmp_path / 'run'}" in err
    monkeypatch.setattr("sparsemble.runs.results._text_metrics", _text_metrics)
    assert command("resume", tmp_path / "run", "--quiet")[0] == 0
    assert (tmp_path / "run" / "baseline" / "result.json").exists()


def small_baseline(recipe):
    return recipe.model_copy(update={"name": "small", "prune": None, "retrain": None})


def interrupted(*_):
    raise KeyboardInterrupt


def test_an_interrupt_after_the_last_step_is_not_lost(listening):
    with pytest.raises(KeyboardInterrupt), stop_requests(catch=True) as request:
        os.kill(os.getpid(), signal.SIGINT)
    assert request.made


def test_a_lock_ends_with_its_run_though_a_forked_process_has_the_file_open(tmp_path, monkeypatch):
    inherited = []

    def opened(*arguments):
        handle = real(*arguments)
        inherited.append(os.dup(handle))  # what a fork has: the same open file
        return handle

    real = os.open
    monkeypatch.setattr("sparsemble.runs.folder.os.open", opened)
    for _ in range(2):
        with RunFolder(tmp_path).locked():
            pass
    for handle in inherited:
        os.close(handle)


def test_locking_a_run_leaves_what_its_baseline_is_writing(tmp_path):
    own, other = tmp_path / "chain" / ".a.partial", tmp_path / "baseline" / "chain" / ".b.partial"
    for partial in (own, other):
        partial.parent.mkdir(parents=True)
        partial.touch()
    with RunFolder(tmp_path).locked():
        assert not own.exists()
        assert other.exists()


def test_a_copied_sample_is_no_obstacle(tmp_path):
    run(tmp_path)
    before = saved(tmp_path)
    [first, *_] = sorted((tmp_path / "chain").glob("sample-*"))
    shutil.copy(first, first.with_stem(f"{first.stem} (copy)"))
    run(tmp_path)
    assert saved(tmp_path) == before
    RunFolder(tmp_path).chain.drop_samples(0, after=0)
    assert [path.stem for path in (tmp_path / "chain").glob("sample-*")] == [f"{first.stem} (copy)"]


def test_a_second_request_to_terminate_does_not_cut_saving_short():
    saved = False
    with suppress(KeyboardInterrupt), stop_requests(catch=True):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        saved = True
    assert saved


def test_a_folder_is_called_complete_only_if_it_is(command, tmp_path):
    changes = [f"--set={key}={value}" for key, value in QUICK.items()]
    arguments = ("learn", "digits", f"--out={tmp_path / 'run'}", *changes)
    for told in (False, True):
        code, _, err = command(*arguments)
        assert code == 0
        assert ("nothing is left to do" in err) == told
    code, _, err = command(*arguments, "--set=seed=3")
    assert code == 2
    assert "nothing is left to do" not in err
