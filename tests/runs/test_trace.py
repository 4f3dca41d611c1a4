"""The trace of a run: every record survives it, and a damaged line is told."""

import pytest

from sparsemble.errors import CorruptFileError
from sparsemble.runs import RunFolder
from sparsemble.stages import EpochRecord, Rollback, SampleRecord


def test_a_record_of_every_kind_survives_the_trace(tmp_path):
    part = RunFolder(tmp_path).chain.part(1)
    records = [
        EpochRecord("chain", 1, 1, 0.5, 0.5, "loss", *[0.5] * 5),
        SampleRecord("chain", 1, 10, 1, "error", "training examples", 0.1, 0.1),
        Rollback("chain", 1, 25, "loss", 15, 1, 0.5),
    ]
    for record in records:
        part.record(record)
    history = part.history()
    assert [*history.epochs, *history.samples, *history.rollbacks] == records


@pytest.mark.parametrize(("epoch", "loss"), [(1, "much"), (10**30, 0.5)])
def test_a_line_of_the_trace_with_a_word_for_a_number_or_an_absurd_one_is_refused(
    epoch, loss, tmp_path
):
    stage = RunFolder(tmp_path).chain
    stage.part(0).record(EpochRecord("chain", 0, epoch, loss, 0.5, "loss", *[0.5] * 5))
    with pytest.raises(CorruptFileError, match="a damaged line"):
        stage.history()
