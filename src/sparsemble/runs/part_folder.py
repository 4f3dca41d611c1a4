"""What one part of a stage keeps: a chain, or members that are retrained together.

    0000/
      checkpoint.safetensors       where it is
      trace.jsonl                  what happened
      sample-000000120.safetensors what it has given

Parts know nothing of each other, so any process can bring one to its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from sparsemble.errors import CorruptFileError
from sparsemble.processes.interrupts import Stop
from sparsemble.runs.notes import CheckpointNote, Note, SampleNote
from sparsemble.runs.traces import as_line, lines_of, records_in
from sparsemble.stages import ChainState, Sample
from sparsemble.stages.history import History, Record
from sparsemble.store import (
    full_disk_explained,
    inside,
    read_tensors,
    remove_partial,
    write_atomically,
    write_tensors,
)

_LOOK_EVERY = 0.2
_UNITS = "units/"
"""Before the names of the units of a smaller sample, among its parameters."""
_SAMPLES = f"sample-{'[0-9]' * 9}.safetensors"
"""A copy of a file by another name is not taken for one."""


class PartFolder:
    """A part on disk; `identity` names the stage that its files belong to."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = identity
        self._checkpoint = inside(path, "checkpoint.safetensors")
        self._trace = inside(path, "trace.jsonl")
        self._trace_lines = 0

    @contextmanager
    def alone(self, stop: Stop) -> Iterator[None]:
        """Wait until nobody else works on it: a worker that was given up for lost may be alive."""
        import fcntl

        self.path.mkdir(parents=True, exist_ok=True)
        with inside(self.path, ".lock").open("wb") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if stop.stop_requested:
                        raise KeyboardInterrupt from None
                    time.sleep(_LOOK_EVERY)
            yield

    def clean(self) -> None:
        """Remove what a kill left half-written."""
        remove_partial(self.path)

    def checkpoint(self) -> ChainState | None:
        """The state of what was under way."""
        if not self._checkpoint.exists():
            return None
        return ChainState(*self._read(self._checkpoint, CheckpointNote))

    def save_checkpoint(self, state: ChainState) -> None:
        """Replace the checkpoint."""
        numbers = {
            **state.numbers,
            "trace_lines": self._trace_lines,
            "belongs_to": self._identity,
        }
        write_tensors(self._checkpoint, state.tensors, numbers)

    def sample_files(self) -> list[Path]:
        """Where the samples are, in order."""
        return sorted(self.path.glob(_SAMPLES))

    def samples(self, state: ChainState | None) -> list[Sample]:
        """The samples collected so far, in order.

        Those that were taken after the checkpoint are left out: they are taken again.
        """
        read = (self._read(file, SampleNote) for file in self.sample_files())
        found = [sample_of(tensors, note) for tensors, note in read]
        return [] if state is None else [s for s in found if s.step <= state.numbers["step"]]

    def drop_samples(self, *, after: int) -> None:
        """Remove the samples that were taken after a step."""
        for file in self.sample_files():
            if int(file.stem.rpartition("-")[2]) > after:
                file.unlink()

    def save_sample(self, sample: Sample) -> None:
        """Keep a sample."""
        note = {"chain": sample.chain, "step": sample.step, "belongs_to": self._identity}
        units = {f"{_UNITS}{space}": kept for space, kept in sample.units.items()}
        file = inside(self.path, f"sample-{sample.step:09d}.safetensors")
        write_tensors(file, {**sample.parameters, **units}, note)

    def _read(self, file: Path, what: type[Note]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, note = read_tensors(inside(self.path, file.name))
        if note.get("belongs_to") != self._identity:
            raise CorruptFileError(f"{file} belongs to another run; remove it, or the whole folder")
        what.read_back(note, file)
        return tensors, note

    def record(self, record: Record) -> None:
        """Append a line to the trace."""
        self.path.mkdir(parents=True, exist_ok=True)
        line = as_line(record).encode()
        with full_disk_explained(self._trace, len(line)), self._trace.open("ab") as file:
            file.write(line)
        self._trace_lines += 1

    def rewind_trace(self, state: ChainState | None) -> None:
        """Drop lines written after the checkpoint: they will be written again."""
        lines = lines_of(self._trace)[: state.numbers["trace_lines"] if state is not None else 0]
        self._trace_lines = len(lines)
        if self._trace.exists():
            write_atomically(self._trace, "".join(f"{line}\n" for line in lines).encode())

    def history(self) -> History:
        """What the trace tells."""
        return History.of(records_in(self._trace))


def sample_of(tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> Sample:
    """What the file of a sample holds."""
    units = {n.removeprefix(_UNITS): t for n, t in tensors.items() if n.startswith(_UNITS)}
    parameters = {name: t for name, t in tensors.items() if not name.startswith(_UNITS)}
    return Sample(note["chain"], note["step"], parameters, units)
