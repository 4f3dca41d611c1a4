"""A finished run, opened to be looked at: its recipe, results, samples, ensemble and data.

Samples are read one at a time: a run may hold more of them than memory does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from sparsemble.data import Batches, Split
from sparsemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.learning.candidates import COUNTS
from sparsemble.learning.fitting import Fitted
from sparsemble.learning.pipeline import Judge
from sparsemble.members import Member, tensors_of
from sparsemble.recipes import Recipe
from sparsemble.recipes.trust import check_named
from sparsemble.results.result import Result, read_result
from sparsemble.results.running import ingredients_of
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.opening import open_ensemble
from sparsemble.runs.part_folder import sample_of
from sparsemble.stages import Sample
from sparsemble.stages.patience import count_kept
from sparsemble.stages.pruning import pruned_member, within
from sparsemble.stages.samples import mean_of
from sparsemble.stages.statistics import re_estimate
from sparsemble.store import inside, read_tensors
from sparsemble.structure import Layout
from sparsemble.tasks import Evaluation, Task, described_task


@dataclass(frozen=True)
class FinishedRun:
    """A run with everything it was made of.

    `num_data` is the N of the posterior; `steps` and `retrain_steps` are those of an epoch.
    """

    folder: RunFolder
    recipe: Recipe
    result: Result
    baseline: Result | None
    ensemble: Ensemble
    split: Split
    fitted: Fitted
    num_data: int
    steps: int
    retrain_steps: int

    @property
    def task(self) -> Task:
        """What was learned."""
        return self.ensemble.task

    @property
    def blank(self) -> nn.Module:
        """A network of the run's kind."""
        return self.fitted.blank

    @property
    def layout(self) -> Layout:
        """Of the dense network."""
        return self.fitted.layout

    @property
    def shown_part(self) -> str:
        """The part of the data that is looked at closely."""
        wanted, parts = self.task.report_part, self.split.measured
        return wanted if wanted in parts else next(iter(parts))

    @cached_property
    def held(self) -> Evaluation:
        """That part, to measure on."""
        part = self.split.measured[self.shown_part]
        return self.task.evaluation(part.data, part.name)

    @cached_property
    def sample_files(self) -> tuple[Path, ...]:
        """The files of the samples the members were made of, in order; none unless all are there.

        The folder may be shared by runs that took more samples. Chosen members are made of means of
        several.
        """
        if self.recipe.choose:
            return ()
        wanted = set(self.recipe.chain.steps_to_collect(self.steps))
        parts = self.folder.chain.parts(self.recipe.chain.chains)
        found = [
            file for part in parts for file in part.sample_files() if _place(file)[1] in wanted
        ]
        return tuple(found) if len(found) == len(self.ensemble) else ()

    def sample(self, index: int) -> Sample:
        """One sample as the chain left it."""
        file = self.sample_files[index]
        tensors, note = read_tensors(inside(file.parent, file.name))
        wrong = CorruptFileError(f"{file} is not the sample that its name and the recipe say")
        if (note.get("chain"), note.get("step")) != _place(file):
            raise wrong
        sample = sample_of(tensors, note)
        if {name: list(t.shape) for name, t in sample.parameters.items()} != self._shapes(sample):
            raise wrong
        return sample

    def _shapes(self, sample: Sample) -> dict[str, list[int]] | None:
        """Of the parameters of a network with the sample's units; `None` if there is no such."""
        whole = {space.name: space.size for space in self.layout.spaces}
        if sample.units and set(sample.units) != set(whole):
            return None
        sizes = whole | {name: len(units) for name, units in sample.units.items()}
        return {
            name: self.layout.shape_with(sizes, name, parameter.shape)
            for name, parameter in tensors_of(self.blank).items()
        }

    def samples(self) -> Iterator[Sample]:
        """The samples, one at a time."""
        return (self.sample(index) for index in range(len(self.sample_files)))

    def mean_network(self) -> Member | None:
        """The mean of the first chain's last means, not pruned; `None` if it took no means.

        As many are averaged as choosing among numbers of members starts from.
        """
        how = self.recipe.chain
        if how.collection != "means":
            return None
        files = self.folder.chain.part(0).sample_files()
        judged = self.fitted.training.judged()
        if how.patience is not None and judged is not None:
            judge = Judge(self.fitted, judged, torch.device("cpu"))
            files = files[: count_kept((judge(_read(file)) for file in files), how.patience)]
        count = max((count for count in COUNTS if count <= len(files)), default=0)
        if not count:
            return None
        mean = mean_of([_read(file) for file in files[-count:]], self.layout, self.blank)
        return self._settled(self.fitted.dense(mean))

    def pruned_member(self, sample: Sample) -> Member:
        """A sample pruned by the recipe and made compact, not yet retrained."""
        how = self.recipe.prune
        assert how is not None
        dense = self.fitted.dense(sample)
        if how.sparsity is None:
            return self._settled(within(dense, how.shares(len(self.ensemble))[-1]))
        return self._settled(pruned_member(dense, how))

    def _settled(self, member: Member) -> Member:
        """A member whose weights have changed, with statistics of its own."""
        batches = self.fitted.training.batches(self.recipe.chain.batch_size)
        return re_estimate(member, self.task, batches)


def _read(file: Path) -> Sample:
    return sample_of(*read_tensors(inside(file.parent, file.name)))


def open_run(
    path: Path,
    *,
    samples_folder: Path | None = None,
    data_folder: Path | None = None,
    code: Sequence[str] = (),
    files: Sequence[Path] = (),
) -> FinishedRun:
    """Open a finished run.

    Args:
        path: Its folder.
        samples_folder: Where its samples lie, if runs share them.
        data_folder: Where data sets lie.
        code: The user's own functions that its recipe may call.
        files: Files, or folders that hold them, which its recipe may read data from.
    """
    folder = RunFolder(path, samples_folder, code)
    recipe = folder.recipe()
    if recipe.data is None or recipe.network is None:
        raise InputError(
            f"{path}: its recipe names no data or no network, so there is nothing to measure on; "
            "reports are made of runs begun with: sparsemble learn"
        )
    folder.finished()
    check_named(recipe, str(path), code=code, files=files)
    given = ingredients_of(recipe, data_folder)
    fitted = given.fit()
    folder.check_data(fitted.training.fingerprint())
    result = read_result(folder.result, recipe.code)
    ensemble = open_ensemble(path, recipe.code)
    _check_ensemble(path, ensemble, result, fitted)
    num_data, steps = _counted(fitted.training.batches(recipe.chain.batch_size))
    again = recipe.retrain or recipe.chain
    _, retrain_steps = _counted(fitted.training.batches(again.batch_size))
    compared = RunFolder(folder.baseline).result
    fitted.blank.eval()
    return FinishedRun(
        folder,
        recipe,
        result,
        read_result(compared) if compared.is_file() else None,
        ensemble,
        given.split,
        fitted,
        num_data,
        steps,
        retrain_steps,
    )


def _counted(batches: Batches) -> tuple[int, int]:
    """N and the steps of an epoch; the batches, which hold the data once more, are let go."""
    return batches.num_data, batches.steps


def _check_ensemble(path: Path, ensemble: Ensemble, result: Result, fitted: Fitted) -> None:
    """Ensemble, result and recipe must be of one run."""
    sizes = {space.name: space.size for space in fitted.layout.spaces}
    same = described_task(ensemble.task) == described_task(fitted.task)
    measured = {metric.key for metric in ensemble.task.metrics}
    counts = {len(values) for values in result.score.members.values()}
    if (
        not same
        or set(result.score.curve) != measured
        or counts != {len(ensemble)}
        or any(dict(member.origin.sizes) != sizes for member in ensemble)
    ):
        raise CorruptFileError(f"{path}: its ensemble or result is not of the run in run.json")


def _place(file: Path) -> tuple[int, int]:
    """Chain and step of a sample, by the names of its file and folder."""
    return int(file.parent.name), int(file.stem.rpartition("-")[2])
