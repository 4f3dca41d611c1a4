"""Run folders: whose they are, who may work in them, and what they may name."""

from __future__ import annotations

import os
import shutil
from importlib import import_module

import pytest
import torch

from scenarios import QUICK
from small_runs import quick_run, saved_ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.runs import RunFolder
from sparsemble.store import read_json, write_json


def test_a_run_remembers_that_it_shares_the_samples_beside_it(command, tmp_path):
    shared = tmp_path / "samples"
    quick_run(tmp_path / "run", samples_folder=shared)
    assert not (tmp_path / "run" / "chain").exists()
    assert RunFolder(tmp_path / "run").chain.path == shared
    assert command("resume", tmp_path / "run", "--quiet")[0] == 0
    assert command("report", tmp_path / "run")[0] == 0
    assert not (tmp_path / "run" / "chain").exists()


def test_a_shared_chain_goes_on_with_the_threads_it_was_begun_with(tmp_path):
    def begin(name, threads):
        torch.set_num_threads(threads)
        quick_run(tmp_path / name, samples_folder=tmp_path / "samples")
        return RunFolder(tmp_path / name).begun()["threads"]

    outside = torch.get_num_threads()
    try:
        assert [begin("first", 1), begin("second", 2)] == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(outside)


def test_a_run_whose_random_numbers_were_drawn_otherwise_does_not_go_on(tmp_path, monkeypatch):
    quick_run(tmp_path)
    monkeypatch.setattr(import_module("sparsemble.learning.given"), "STREAMS", 0)
    with pytest.raises(InputError, match="begun by another version of sparsemble"):
        quick_run(tmp_path)


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp", "", 3])
def test_a_run_cannot_send_its_samples_anywhere_else(name, tmp_path):
    write_json(tmp_path / "run" / "run.json", {"recipe": {}, "samples": name})
    with pytest.raises(CorruptFileError, match=r"samples = .*: is not a folder beside it"):
        _ = RunFolder(tmp_path / "run").chain


def test_a_run_folder_cannot_name_a_baseline_of_its_own(command, tmp_path):
    folder = tmp_path / "run"
    quick_run(folder)
    described = read_json(folder / "run.json")
    described["recipe"]["baseline"] = str(tmp_path / "evil.toml")
    write_json(folder / "run.json", described)
    (folder / "baseline").mkdir()
    (tmp_path / "evil.toml").write_text('extends = "digits"\n')
    code, _, err = command("resume", folder, "--quiet")
    assert code == 2
    assert "nor a built-in recipe" in err


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
    quick_run(tmp_path)
    before = saved_ensemble(tmp_path)
    chain = tmp_path / "chain" / "0000"
    [first, *_] = sorted(chain.glob("sample-*"))
    shutil.copy(first, first.with_stem(f"{first.stem} (copy)"))
    quick_run(tmp_path)
    assert saved_ensemble(tmp_path) == before
    RunFolder(tmp_path).chain.part(0).drop_samples(after=0)
    assert [path.stem for path in (tmp_path / "chain" / "0000").glob("sample-*")] == [
        f"{first.stem} (copy)"
    ]


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
