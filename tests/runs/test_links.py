"""Links and pipes inside a run folder: nothing is done through the ones or waits for the others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from small_runs import quick_run
from sparsemble.cli.main import main
from sparsemble.errors import CorruptFileError
from sparsemble.results import run_recipe
from sparsemble.runs import RunFolder

CHANGES = (
    *("chain.epochs=2", "chain.burn_in=0", "chain.interval=1", "chain.batch_size=5"),
    *("network.hidden=[6]", "retrain.epochs=1", "retrain.batch_size=5", "data.portion=0.01"),
)
PLACES = (
    *("run.json", "result.json", "report.html", ".lock", "tensorboard"),
    *("chain", "chain/stage.json", "chain/measured.jsonl", "chain/.lock", "chain/0000"),
    *("chain/0000/trace.jsonl", "chain/0000/checkpoint.safetensors"),
    *("chain/0000/sample-*.safetensors",),
    *("retrain", "retrain/stage.json", "retrain/measured.jsonl", "retrain/0000"),
    *("retrain/0000/trace.jsonl", "retrain/0000/checkpoint.safetensors"),
    *("pruned", "pruned/manifest.json", "pruned/members-*.safetensors"),
    *("ensemble", "ensemble/manifest.json", "ensemble/members-*.safetensors"),
    *("baseline", "baseline/run.json", "baseline/result.json", "baseline/ensemble"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run with everything that a run folder can hold."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    changes = [f"--set={change}" for change in CHANGES]
    learn = ("learn", "grammar", "--threads=1", "--tensorboard", "--baseline=none")
    for arguments in ((*learn, f"--out={folder}", *changes), ("report", str(folder))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.argv", ["sparsemble", *arguments])
            with pytest.raises(SystemExit) as stop:
                main()
        assert stop.value.code == 0
    run_recipe(baseline_of(RunFolder(folder).recipe()), folder / "baseline")
    return folder


def baseline_of(recipe):
    return recipe.model_copy(update={"name": "small", "prune": None, "retrain": None})


@pytest.fixture(autouse=True)
def _small_baseline(monkeypatch):
    """The recipe that is compared with, as quick as the run itself."""
    monkeypatch.setattr("sparsemble.recipes.baselines.baseline_of", baseline_of)


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_link_inside_a_run_is_named_and_not_followed(place, whole, tmp_path, command):
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    shutil.copytree(whole, run)
    link = next(run.glob(place))
    link.rename(outside / link.name)
    link.symlink_to(outside / link.name)
    before = content(outside)
    command("report", run)
    if place != "result.json":
        (run / "result.json").unlink()  # so that something is left to do
    code, _, err = command("resume", run)
    assert code == 2
    assert f"{link} is a symbolic link" in err
    assert content(outside) == before


PIPED = ("run.json", "report.html", "chain/stage.json", "ensemble/members-*.safetensors")


@pytest.mark.parametrize("place", PIPED)
def test_a_pipe_inside_a_run_is_named_and_not_waited_for(place, whole, tmp_path, command):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    pipe = next(run.glob(place))
    pipe.unlink()
    os.mkfifo(pipe)
    (run / "result.json").unlink()  # so that something is left to do
    code, _, err = command("report" if place == "report.html" else "resume", run)
    assert code == 2
    assert f"{pipe} is " in err


def test_a_report_is_not_written_to_where_a_link_points(whole, tmp_path, command):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "report.html").unlink()
    (run / "report.html").symlink_to(tmp_path / "nothing")
    code, _, err = command("report", run)
    assert code == 2
    assert f"{run / 'report.html'} is a symbolic link" in err
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("verb", ["compare", "inspect", "predict"])
def test_a_link_is_not_read_through(verb, whole, tmp_path, command):
    run, text = tmp_path / "run", tmp_path / "text.txt"
    text.write_text("the dog sleeps\n")
    shutil.copytree(whole, run)
    for name in ("result.json", "ensemble"):
        (run / name).rename(tmp_path / name)
        (run / name).symlink_to(tmp_path / name)
    code, _, err = command(verb, run, *([text] if verb == "predict" else []))
    assert code == 2
    assert "is a symbolic link" in err


def test_samples_that_runs_share_are_not_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "samples").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CorruptFileError, match="samples is a symbolic link"):
        quick_run(tmp_path / "run", samples_folder=tmp_path / "samples")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_run_folder_may_itself_be_a_link(whole, tmp_path, command):
    (tmp_path / "link").symlink_to(whole)
    assert command("resume", tmp_path / "link")[0] == 0
    assert RunFolder(tmp_path / "link").recipe() == RunFolder(whole).recipe()
