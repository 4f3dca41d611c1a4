"""The run folder: recipe, trace, checkpoints, samples, ensemble.

    run/
      run.json             recipe, seed, versions, commit, threads, device
      trials/              the short chains that found the recipe, if it was looked for
      chain/               stage 1: a folder for every chain
      prune-1/, …          the training between rounds of pruning, if there are several
      members-2-retrain/   … the same for every number of members that was tried
      pruned/              the members before retraining, as a saved ensemble, and how they do
      retrain/             stage 2: a folder for all members, or for each
      ensemble/            the result
      result.json          metrics and costs
      latencies.json       how long predictions took, if that was limited
      baseline/, small/    the runs it is compared with
      failure.json         why nothing came of it, in the folder of such a one that diverged
      verdict.json         how the ensemble does beside it
      tensorboard/         the trace once more, to look at
      report.html          the run explained

Every file is checksummed, and written atomically but for the trace, which grows by lines that are
checksummed each; a lock keeps a second process out. Tensor files name the stage they belong to. A
stage that is resumed truncates its trace to what the checkpoint knew. No file or folder inside may
be a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from sparsemble.errors import InputError
from sparsemble.extensions import permitted
from sparsemble.recipes import Recipe
from sparsemble.recipes.recipe import named_code
from sparsemble.runs.notes import FailureNote, LatencyNote, RunNote
from sparsemble.runs.provenance import provenance
from sparsemble.runs.stage_folder import StageFolder
from sparsemble.store import inside, read_json, remove_partial, write_json

_NAMED = 3
"""Settings that a message names."""


def is_run(folder: str | Path) -> bool:
    """Does a folder hold a run?"""
    return (Path(folder) / "run.json").is_file()


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
        self._failure = inside(path, "failure.json")
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

    def stages(self) -> dict[str, StageFolder]:
        """The chain, and what has been trained after it, by name."""
        begun = sorted(file.parent.name for file in self.path.glob("*/stage.json"))
        return {name: self.stage(name) for name in ("chain", *begun)}

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

    def finished(self) -> Path:
        """Its result file, which only a finished run has."""
        if not self.is_begun:
            raise InputError(f"{self.path} is not a run folder: it has no run.json")
        if not self.result.is_file():
            raise InputError(
                f"{self.path} holds a run that is not finished: sparsemble resume {self.path}"
            )
        return self.result

    def device(self) -> str:
        """Where the run was begun to compute."""
        return self._note().device

    def failure(self) -> str | None:
        """Why nothing came of it, if that is known: the same seed would fail again."""
        if not self._failure.is_file():
            return None
        note: FailureNote = FailureNote.read_back(read_json(self._failure), self._failure)
        return note.reason

    def save_failure(self, reason: str) -> None:
        """Keep it."""
        self.path.mkdir(exist_ok=True)
        write_json(self._failure, {"reason": reason})

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
        """The versions, commit, threads and device the run was begun with."""
        known = read_json(self._file)
        return {key: known.get(key) for key in (*provenance(), "device")}

    def claim(
        self, recipe: Recipe, threads: int | None = None, device: str | torch.device = "cpu"
    ) -> int:
        """Write `run.json`, or check that the folder holds the same run; return its threads."""
        if not self._file.exists():
            shared = self._samples
            beside = shared is not None and shared.absolute().parent == self.path.absolute().parent
            name = shared.name if shared is not None and beside else None
            known = {"recipe": recipe.model_dump(mode="json"), **provenance(), "samples": name}
            # What another run has sampled here goes on with that run's threads.
            known["threads"] = self.chain.threads() or threads or known["threads"]
            known["device"] = str(device)
            write_json(self._file, known)
            return int(known["threads"])
        note = self._note(recipe.code)
        if not note.recipe.is_same_run(recipe):
            differing = note.recipe.differing(recipe)
            more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
            raise InputError(
                f"{self.path} holds a run with another recipe or seed "
                f"({'; '.join(differing[:_NAMED])}{more}); go on with it by sparsemble resume "
                f"{self.path}, use another folder (--out), or delete this one"
            )
        kinds = {torch.device(where).type for where in (note.device, device)}
        if len(kinds) > 1 and self.chain.path.is_dir() and not self.ensemble.is_dir():
            raise InputError(
                f"{self.path} was begun on {note.device}, where its checkpoints go on to the same "
                f"bits, and not on {device}: name it (--device {note.device}), or use another "
                "folder (--out)"
            )
        if note.recipe != recipe:  # now compared with something else
            fields = {**read_json(self._file), "recipe": recipe.model_dump(mode="json")}
            write_json(self._file, fields)
        return note.threads

    def check_data(self, fingerprint: str) -> None:
        """Refuse other data than those the chain was run on, as far as its folder remembers."""
        stage = self.chain.path / "stage.json"
        if stage.is_file() and read_json(stage).get("data") != fingerprint:
            raise InputError(
                f"{self.path} was learned on other data than its recipe names now: {stage} has "
                "another fingerprint; give them back, or use another folder (--out)"
            )

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
