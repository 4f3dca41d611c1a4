"""TensorBoard: the trace once more."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from scenarios import QUICK
from sparsemble.runs import RunFolder


def test_tensorboard_gets_the_traces_scalars(command, tmp_path):
    changes = [f"--set={key}={value}" for key, value in QUICK.items()]
    folder = tmp_path / "run"
    assert command("learn", "digits", f"--out={folder}", "-q", "--tensorboard", *changes)[0] == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    losses = events.Scalars("chain-0/loss")
    trace = RunFolder(tmp_path / "run").chain.history().epochs
    assert [event.step for event in losses] == [record.epoch for record in trace]
    assert [event.value for event in losses] == pytest.approx([record.loss for record in trace])
