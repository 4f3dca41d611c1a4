"""The run folder: recipe, trace, checkpoints, samples, ensemble.

    run/
      run.json             recipe, seed, versions, commit, threads
      trials/              the short chains that found the recipe, if it was looked for
      chain/               stage 1: samples, trace, the checkpoint of the chain under way
      prune-1/, …          the training between rounds of pruning, if there are several
      pruned/              the members before retraining, as a saved ensemble, and how they do
      retrain/             stage 2: retrained weights, trace, the checkpoint of the retraining
      ensemble/            the result
      result.json          metrics and costs
      baseline/            the run it is compared with
      verdict.json         how the ensemble does beside it
      tensorboard/         the trace once more, to look at
      report.html          the run explained

Every file is checksummed, and written atomically but for the trace, which grows by lines that are
checksummed each; a lock keeps a second process out. Tensor files name the stage they belong to. A
stage that is resumed truncates its trace to what the checkpoint knew. No file or folder inside may
be a link.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from sparsemble.errors import CorruptFileError, InputError
from sparsemble.extensions import permitted
from sparsemble.recipes import Recipe
from sparsemble.recipes.recipe import named_code
from sparsemble.runs.notes import CheckpointNote, LatencyNote, Note, RunNote, SampleNote, StageNote
from sparsemble.runs.provenance import provenance
from sparsemble.stages import ChainState, Sample
from sparsemble.stages.history import (
    EpochRecord,
    History,
    Jump,
    Record,
    Rollback,
    SampleRecord,
    Shed,
)
from sparsemble.store import (
    full_disk_explained,
    inside,
    read_json,
    read_tensors,
    remove_partial,
    write_atomically,
    write_json,
    write_tensors,
)

_KINDS: dict[str, type[Record]] = {
    "epoch": EpochRecord,
    "sample": SampleRecord,
    "jump": Jump,
    "shed": Shed,
    "rollback": Rollback,
}
"""What a line of a trace can be."""
_UNITS = "units/"
"""Before the names of the units of a smaller sample, among its parameters."""


class StageFolder:
    """What one stage keeps while it runs and afterwards."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checkpoint = inside(path, "checkpoint.safetensors")
        self._trace = inside(path, "trace.jsonl")
        self._stage = inside(path, "stage.json")
        self._trace_lines = 0

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Make the folder this stage's own, or check that it already is."""
        if self._stage.exists():
            known = read_json(self._stage)
            changed = [key for key in identity if known.get(key) != identity[key]]
            if changed:
                hint = "use another folder"
                if changed == ["initial weights"]:
                    hint += ", or give learn() a function that makes the network, not a network"
                if "random streams" in changed:
                    hint += ": this one was begun by another version of sparsemble"
                raise InputError(
                    f"{self.path} belongs to another run: its {', '.join(changed)} "
                    f"{'differ' if len(changed) > 1 else 'differs'}; {hint}"
                )
        else:
            write_json(self._stage, {**identity, "threads": torch.get_num_threads()})

    def threads(self) -> int | None:
        """How many threads the stage was begun with, if it was."""
        if not self._stage.exists():
            return None
        note: StageNote = StageNote.read_back(read_json(self._stage), self._stage)
        return note.threads

    @cached_property
    def _identity(self) -> str:
        """A name for whose files these are."""
        if not self._stage.exists():
            return ""
        text = json.dumps(read_json(self._stage), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def checkpoint(self) -> ChainState | None:
        """The state of the chain that was under way."""
        if not self._checkpoint.exists():
            return None
        tensors, numbers = self._read(self._checkpoint, CheckpointNote)
        return ChainState(tensors, numbers)

    def save_checkpoint(self, state: ChainState) -> None:
        """Replace the checkpoint."""
        numbers = {
            **state.numbers,
            "trace_lines": self._trace_lines,
            "belongs_to": self._identity,
        }
        write_tensors(self._checkpoint, state.tensors, numbers)

    def samples(self, state: ChainState | None) -> list[Sample]:
        """The samples collected so far, in order.

        Those that the chain under way took after its checkpoint are left out: it takes them again.
        """
        files = sorted(self.path.glob(f"sample-{_digits(4)}-{_digits(9)}.safetensors"))
        read = (self._read(file, SampleNote) for file in files)
        found = [sample_of(tensors, note) for tensors, note in read]
        if state is None:
            return []
        under_way, step = state.numbers["chain"], state.numbers["step"]
        return [
            s for s in found if s.chain < under_way or (s.chain == under_way and s.step <= step)
        ]

    def drop_samples(self, chain: int, *, after: int) -> None:
        """Remove the samples that a chain took after a step."""
        for file in self.path.glob(f"sample-{chain:04d}-{_digits(9)}.safetensors"):
            if int(file.stem.rpartition("-")[2]) > after:
                file.unlink()

    def save_sample(self, sample: Sample) -> None:
        """Keep a sample."""
        name = f"sample-{sample.chain:04d}-{sample.step:09d}.safetensors"
        note = {"chain": sample.chain, "step": sample.step, "belongs_to": self._identity}
        units = {f"{_UNITS}{space}": kept for space, kept in sample.units.items()}
        write_tensors(inside(self.path, name), {**sample.parameters, **units}, note)

    def _read(self, file: Path, what: type[Note]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, note = read_tensors(inside(self.path, file.name))
        if note.get("belongs_to") != self._identity:
            raise CorruptFileError(f"{file} belongs to another run; remove it, or the whole folder")
        what.read_back(note, file)
        return tensors, note

    def record(self, record: Record) -> None:
        """Append a line to the trace."""
        kind = next(name for name, known in _KINDS.items() if isinstance(record, known))
        self.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"kind": kind, **_without_nan(asdict(record))})
        line = f"{_checksum(text)} {text}\n"
        with full_disk_explained(self._trace, len(line)), self._trace.open("a") as file:
            file.write(line)
        self._trace_lines += 1

    def rewind_trace(self, state: ChainState | None) -> None:
        """Drop lines written after the checkpoint: they will be written again."""
        lines = self._lines()[: state.numbers["trace_lines"] if state is not None else 0]
        self._trace_lines = len(lines)
        if self._trace.exists():
            write_atomically(self._trace, "".join(f"{line}\n" for line in lines).encode())

    def history(self) -> History:
        """What the trace tells."""
        history = History()
        for line in self._lines():
            try:
                checksum, _, text = line.partition(" ")
                if checksum != _checksum(text):
                    raise ValueError
                fields = json.loads(text)
                kind = _KINDS[fields.pop("kind")]
                history.add(TypeAdapter(kind).validate_python(asdict(kind(**_with_nan(fields)))))
            except (ValueError, TypeError, KeyError, AttributeError):
                raise CorruptFileError(f"{self._trace} has a damaged line: {line[:80]!r}") from None
        return history

    def _lines(self) -> list[str]:
        if not self._trace.exists():
            return []
        text = self._trace.read_text(errors="replace")
        # A kill can leave half a line at the end; it belongs to no checkpoint.
        return text[: text.rfind("\n") + 1].splitlines()


class RunFolder:
    """A run on disk.

    Its `samples` may lie elsewhere, to be shared by runs with the same chain; of a folder beside
    the run, `run.json` remembers the name.
    """

    def __init__(self, path: Path, samples: Path | None = None, code: Sequence[str] = ()) -> None:
        """`code` names what the user allows the folder's recipe to import."""
        self.path = path
        self._samples = samples
        self._code = code
        self._file = inside(path, "run.json")
        self.retrain = StageFolder(inside(path, "retrain"))
        self.trials = inside(path, "trials")
        self.pruned = inside(path, "pruned")
        self.ensemble = inside(path, "ensemble")
        self._latencies = inside(path, "latencies.json")
        self.result = inside(path, "result.json")
        self.baseline = inside(path, "baseline")
        self.small = inside(path, "small")
        self.tensorboard = inside(path, "tensorboard")
        self.verdict = inside(path, "verdict.json")
        self.report = inside(path, "report.html")

    @cached_property
    def chain(self) -> StageFolder:
        """Stage 1."""
        if self._samples is not None:
            return StageFolder(inside(self._samples.parent, self._samples.name))
        name = self._note().samples if self._file.is_file() else None
        if name is None:
            return StageFolder(inside(self.path, "chain"))
        return StageFolder(inside(self.path.parent, name))

    def stage(self, name: str) -> StageFolder:
        """The folder of a stage: `chain`, `retrain`, or `prune-1` and so on between rounds."""
        if name == "chain":
            return self.chain
        return self.retrain if name == "retrain" else StageFolder(inside(self.path, name))

    def _note(self, code: Sequence[str] = ()) -> RunNote:
        with permitted((*self._code, *code), str(self.path)):
            note: RunNote = RunNote.read_back(read_json(self._file), self._file)
        return note

    @property
    def is_begun(self) -> bool:
        """Does it hold a run?"""
        return self._file.is_file()

    def recipe(self) -> Recipe:
        """The resolved recipe the run was begun with."""
        if not self.is_begun:
            raise InputError(f"{self.path} is not a run folder: it has no run.json")
        return self._note().recipe

    def latencies(self) -> list[float]:
        """How long predictions of the candidates took, as far as that was measured."""
        if not self._latencies.is_file():
            return []
        note: LatencyNote = LatencyNote.read_back(read_json(self._latencies), self._latencies)
        return note.latencies

    def save_latencies(self, latencies: Sequence[float]) -> None:
        """Keep them."""
        write_json(self._latencies, {"latencies": list(latencies)})

    def ensemble_code(self) -> tuple[str, ...]:
        """The import paths of task and network in the recipe; none is followed."""
        recipe = read_json(self._file).get("recipe")
        fields = recipe if isinstance(recipe, dict) else {}
        return tuple(named_code({key: fields.get(key) for key in ("task", "network")}))

    def begun(self) -> dict[str, Any]:
        """The versions, commit and threads the run was begun with."""
        known = read_json(self._file)
        return {key: known.get(key) for key in provenance()}

    def claim(self, recipe: Recipe, threads: int | None = None) -> int:
        """Write `run.json`, or check that the folder holds the same run; return its threads."""
        if not self._file.exists():
            shared = self._samples
            beside = shared is not None and shared.absolute().parent == self.path.absolute().parent
            name = shared.name if shared is not None and beside else None
            known = {"recipe": recipe.model_dump(mode="json"), **provenance(), "samples": name}
            # What another run has sampled here goes on with that run's threads.
            known["threads"] = self.chain.threads() or threads or known["threads"]
            write_json(self._file, known)
            return int(known["threads"])
        note = self._note(recipe.code)
        if not note.recipe.is_same_run(recipe):
            raise InputError(
                f"{self.path} holds a run with another recipe or seed; use another folder "
                "(--out), or delete this one"
            )
        if note.recipe != recipe:  # now compared with something else
            fields = {**read_json(self._file), "recipe": recipe.model_dump(mode="json")}
            write_json(self._file, fields)
        return note.threads

    @contextmanager
    def locked(self) -> Iterator[RunFolder]:
        """Keep other processes out of the run while it is worked on."""
        import fcntl

        folders = {self.path, self.chain.path}
        handles = []
        try:
            for folder in sorted(folders):
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    handle = os.open(inside(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
                except OSError as error:
                    raise InputError(
                        f"{folder} cannot be used as a run folder: {error.strerror}"
                    ) from None
                handles.append(handle)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise InputError(
                        f"{folder} is in use by another process; wait for it or use another folder"
                    ) from None
            for folder in (*folders, self.retrain.path, self.pruned, self.ensemble):
                remove_partial(folder)  # not further below: a baseline may be under way there
            yield self
        finally:
            for handle in handles:
                fcntl.flock(handle, fcntl.LOCK_UN)  # a forked worker may have it open still
                os.close(handle)


def sample_of(tensors: Mapping[str, Tensor], note: Mapping[str, Any]) -> Sample:
    """What the file of a sample holds."""
    units = {n.removeprefix(_UNITS): t for n, t in tensors.items() if n.startswith(_UNITS)}
    parameters = {name: t for name, t in tensors.items() if not name.startswith(_UNITS)}
    return Sample(note["chain"], note["step"], parameters, units)


def _digits(count: int) -> str:
    """A pattern for so many of them: a copy of a file by another name is not taken for one."""
    return "[0-9]" * count


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _without_nan(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN and no infinity."""
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in fields.items()}


def _with_nan(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: nan if v is None else v for k, v in fields.items()}
