"""Signals: a run that is asked to stop saves what it has, and goes on to the same bits."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from small_runs import quick_run, saved_ensemble
from sparsemble.processes.interrupts import stop_requests
from sparsemble.runs import RunFolder
from sparsemble.stages import Callback


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The ensemble of a run nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    quick_run(folder)
    return saved_ensemble(folder)


class SignalAt(Callback):
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


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [("chain", 20), ("retrain", 5)])
def test_a_signal_stops_after_the_next_step_and_loses_nothing(
    number, at, tmp_path, whole, listening
):
    callback = SignalAt(*at, number)
    with pytest.raises(KeyboardInterrupt):
        quick_run(tmp_path, callback)
    stage, step = at
    folder = RunFolder(tmp_path)
    state = folder.stage(stage).part(0).checkpoint()
    assert state.numbers["step"] == step + 1
    assert callback.last == at  # the step after it was saved, and not told to anyone
    quick_run(tmp_path)
    assert saved_ensemble(tmp_path) == whole


def test_signals_mean_what_they_meant_once_a_run_is_over(tmp_path, listening):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    quick_run(tmp_path)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_interrupt_after_the_last_step_is_not_lost(listening):
    with pytest.raises(KeyboardInterrupt), stop_requests(catch=True) as request:
        os.kill(os.getpid(), signal.SIGINT)
    assert request.stop_requested


def test_a_second_request_to_terminate_does_not_cut_saving_short():
    saved = False
    with suppress(KeyboardInterrupt), stop_requests(catch=True):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        saved = True
    assert saved
