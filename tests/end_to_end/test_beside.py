"""Several processes and one run: kept out of it, beside it, stopped with it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from scenarios import LONG, QUICK, wait_until
from sparsemble.ensemble.verdict import read_verdict
from sparsemble.recipes.baselines import dense_recipe
from sparsemble.results import read_result
from sparsemble.runs import RunFolder
from sparsemble.samplers import Constant

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_process_beside")]


@pytest.fixture
def beside(short_text):
    """Changes to the recipe `grammar` that make it as quick as can be."""
    return [
        *("--set=chain.epochs=2", "--set=chain.burn_in=0", "--set=chain.interval=1"),
        *("--set=retrain.epochs=1", "--set=network.hidden=[6]"),
        *("--set=data.name=text", f"--set=data.path={short_text}"),
    ]


@pytest.fixture
def _small_baseline(monkeypatch):
    """The recipe that is compared with, as quick as the run itself."""
    monkeypatch.setattr(
        "sparsemble.recipes.baselines.baseline_of",
        lambda recipe: recipe.model_copy(update={"name": "small", "prune": None, "retrain": None}),
    )


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
        code, _, err = command("resume", folder, "--quiet", "--read=/")
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


@pytest.mark.usefixtures("_small_baseline")
def test_a_run_stopped_while_its_baseline_is_trained_can_be_resumed(
    command, beside, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("sparsemble.results.beside._Beside.wait", interrupted)
        code, _, err = command("learn", "grammar", f"--out={tmp_path / 'run'}", *beside)
    assert code == 130
    assert f"go on with: sparsemble resume {tmp_path / 'run'}" in err
    assert not (tmp_path / "run" / "baseline" / "result.json").exists()
    assert command("resume", tmp_path / "run", "--quiet", "--read=/")[0] == 0
    assert (tmp_path / "run" / "baseline" / "result.json").exists()


def interrupted(beside):
    raise KeyboardInterrupt


@pytest.mark.usefixtures("_small_baseline")
def test_learn_trains_the_baseline_beside_on_half_of_the_threads(command, beside, tmp_path):
    try:
        code, out, _ = command(
            "learn", "grammar", "--threads=2", f"--out={tmp_path / 'run'}", *beside
        )
        assert code == 0
        assert "small" in out
        results = [tmp_path / "run" / "result.json", tmp_path / "run" / "baseline" / "result.json"]
        assert [read_result(result).provenance["threads"] for result in results] == [1, 1]
        known = read_result(results[1])
        results[1].unlink()
        torch.set_num_threads(2)
        code, _, err = command("resume", tmp_path / "run", "--read=/")
    finally:
        torch.set_num_threads(1)
    assert code == 0
    assert "nothing is left to do" not in err
    assert read_result(results[1]).scores == known.scores


def test_an_interrupt_exits_with_130_and_says_how_to_go_on(tmp_path):
    script = (
        "import os, signal, sys\n"
        # A test run in the background inherits that interrupts are ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from sparsemble.progress.terminal import TerminalProgress\n"
        "TerminalProgress.epoch_ended = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.argv = ['sparsemble', 'learn', 'digits', '--baseline', 'none']\n"
        f"sys.argv += ['--out', {str(tmp_path / 'run')!r}]\n"
        "from sparsemble.cli.main import main\n"
        "main()\n"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert answer.returncode == 130
    assert "stopped and saved; go on with: sparsemble resume" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_what_a_run_is_compared_with_can_be_asked_for_later(command, tmp_path):
    changes = [f"--set={key}={value}" for key, value in QUICK.items() if key != "baseline"]
    learn = ("learn", "digits", f"--out={tmp_path / 'run'}", *changes)
    assert command(*learn, "--baseline=none")[0] == 0
    code, said, told = command(*learn, "--baseline=small")
    assert code == 0
    assert "a network is trained beside it to compare with, for 6 epochs" in told
    own, dense, small = (
        read_result(tmp_path / "run" / where / "result.json") for where in ("", "baseline", "small")
    )
    assert len(dense.structures) == 1
    assert len(small.structures) == len(own.structures)
    assert 0.9 * own.flops < small.flops <= own.flops
    verdict = read_verdict(tmp_path / "run" / "verdict.json")
    assert verdict.text in said
    assert verdict.text in command("compare", tmp_path / "run")[1]
    (tmp_path / "run" / ".seen-before-a-kill").touch()  # by jobs that had just been done
    assert "nothing is left to do" in command("resume", tmp_path / "run", "--read=/")[2]
    assert not list((tmp_path / "run").glob(".seen-*"))
    assert command("report", tmp_path / "run")[0] == 0
    page = (tmp_path / "run" / "report.html").read_text()
    for name in ("one dense", "small dense", "this ensemble", "NLL against cost"):
        assert name in page


def test_a_baseline_that_diverges_costs_nothing_but_the_verdict(command, tmp_path, monkeypatch):
    def diverging(recipe):
        chain = recipe.chain.model_copy(update={"schedule": Constant(lr=1e9)})
        return dense_recipe(recipe).model_copy(update={"chain": chain})

    monkeypatch.setattr("sparsemble.recipes.baselines.baseline_of", diverging)
    changes = [f"--set={key}={value}" for key, value in QUICK.items() if key != "baseline"]
    code, said, told = command("learn", "digits", f"--out={tmp_path / 'run'}", *changes)
    assert code == 0
    assert "nothing to compare with" in told
    assert "The promise" not in said
    assert read_result(tmp_path / "run" / "result.json").structures
    code, _, told = command("learn", "digits", f"--out={tmp_path / 'run'}", *changes)
    assert code == 0
    assert "nothing is left to do" in told
    assert "nothing to compare with" in told
    assert "is trained beside it" not in told


def test_small_networks_of_a_traced_kind_cost_what_the_ensemble_does(command, tmp_path):
    changes = {
        "network.channels": [4, 8],
        "chain.epochs": 2,
        "chain.burn_in": 0,
        "chain.interval": 1,
        "chain.chains": 1,
        "prune.steps": 1,
        "retrain.epochs": 1,
    }
    settings = [f"--set={key}={value}" for key, value in changes.items()]
    learn = ("learn", "digits-cnn", f"--out={tmp_path / 'run'}", *settings, "--baseline=small")
    assert command(*learn)[0] == 0
    own, small = (read_result(tmp_path / "run" / at / "result.json") for at in ("", "small"))
    assert 0.5 * own.flops < small.flops <= own.flops
    assert "nothing is left to do" in command(*learn)[2]


def test_where_even_the_smallest_networks_cost_more_that_is_said(command, tmp_path):
    changes = {**QUICK, "network.hidden": [2, 2], "prune.sparsity": 0.99}
    settings = [f"--set={key}={value}" for key, value in changes.items() if key != "baseline"]
    learn = ("learn", "digits", f"--out={tmp_path / 'run'}", *settings, "--baseline=small")
    for _ in range(2):
        code, _, told = command(*learn)
        assert code == 0
        assert "no small networks: even with one unit in every layer they cost more" in told
    assert "nothing is left to do" in told


def test_another_baseline_than_the_one_trained_is_refused_and_nothing_changes(command, tmp_path):
    folder = tmp_path / "run"
    changes = [f"--set={key}={value}" for key, value in QUICK.items() if key != "baseline"]
    learn = ("learn", "digits", f"--out={folder}", *changes)
    assert command(*learn, "--baseline=2")[0] == 0
    code, _, told = command(*learn, "--baseline=1")
    assert code == 2
    assert f"{folder / 'baseline'} holds something else to compare with; delete it" in told
    assert "nothing is left to do" in command("resume", folder, "--read=/")[2]
    assert command(*learn, "--baseline=none")[0] == 0
    assert RunFolder(folder).recipe().baseline == "none"


def test_members_that_are_pruned_are_not_called_a_dense_network(command, tmp_path, short_recipes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsemble.recipes.files._BUILTIN", short_recipes)
        changes = [f"--set={key}={value}" for key, value in QUICK.items() if key != "baseline"]
        learn = ("learn", "digits", f"--out={tmp_path / 'run'}", *changes)
        code, said, _ = command(*learn, "--baseline=digits")
    assert code == 0
    assert "The promise" not in said
