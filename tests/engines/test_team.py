"""Processes that compute a chain together: the bits depend on how many they are, and on nothing
else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from together import plain, short

import sparsemble
from scenarios import LONG, is_free, wait_until
from small_runs import examples

pytestmark = pytest.mark.slow


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2")


def environment():
    """In which processes find this library and the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}


def answers_of(*more):
    """What two processes say; with the name of a file more of it, and predictions there."""
    script = str(Path(__file__).with_name("together.py"))
    answer = subprocess.run(
        [*TORCHRUN, script, *more], env=environment(), capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    words = (line.split() for line in answer.stdout.splitlines())
    return {(name, rank): what for name, rank, what in words}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What two processes say, and where they have put predictions."""
    file = tmp_path_factory.mktemp("team") / "predictions.pt"
    return answers_of(file), file


@pytest.mark.thorough  # resuming shows it of the same processes
def test_the_same_number_of_processes_gives_the_same_bits_twice(said):
    first, second = said[0], answers_of()
    assert len(second) == 4
    assert {what: first[what] for what in second} == second


@pytest.mark.parametrize("name", ["examples", "text"])
def test_all_processes_have_the_same_members(said, name):
    answers, _ = said
    assert answers[name, "0"] == answers[name, "1"]


@pytest.mark.parametrize("name", ["examples", "text"])
def test_a_run_of_several_processes_that_was_stopped_goes_on_to_the_same_bits(said, name):
    answers, _ = said
    assert answers[f"{name}-resumed", "0"] == answers[name, "0"]
    assert answers[f"{name}-resumed", "1"] == answers[name, "0"]


def test_networks_that_begin_with_other_weights_are_not_trained_together(said):
    answers, _ = said
    for rank in "01":
        assert "process_1_of_torchrun_has_another_initial_weights" in answers["refused", rank]


@pytest.mark.thorough  # they are stopped and go on in the others
def test_a_run_of_several_processes_saves_when_it_is_stopped(tmp_path):
    changes = [f"--set={key}={value}" for key, value in LONG.items()]
    process = subprocess.Popen(
        [*TORCHRUN, "-m", "sparsemble", "learn", "digits", f"--out={tmp_path / 'run'}", *changes],
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    part = tmp_path / "run" / "chain" / "0000"
    try:
        wait_until((part / "trace.jsonl").exists)
    finally:
        process.terminate()
        process.wait()
    assert (part / "checkpoint.safetensors").exists()
    assert is_free(tmp_path / "run")


def test_they_compute_what_one_process_does_but_for_rounding(said):
    _, file = said
    arrays = examples()
    wide = (torch.tensor(arrays[0]).double(), torch.tensor(arrays[1]))
    alone = sparsemble.learn(plain, wide, short()).ensemble.predict_proba(wide[0])
    together = torch.load(file, weights_only=True).numpy()
    assert np.abs(alone - together).max() < 1e-9
