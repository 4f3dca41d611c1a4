"""One call from a network and data to an ensemble: the stages, composed.

`learn` = draw samples → prune → compact → retrain → ensemble. Each stage can be called by hand;
this adds only the checks of what comes from outside, and a folder that makes it resumable.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import torch
from torch import nn

from sparsemble.data import Corpus
from sparsemble.ensemble import BaseEnsemble, Ensemble, LanguageEnsemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact, load_tensors
from sparsemble.recipes import Recipe
from sparsemble.runs.disk import check_disk, disk_needed
from sparsemble.runs.folder import RunFolder, StageFolder
from sparsemble.runs.interrupts import stop_requests
from sparsemble.runs.keeper import Keeper
from sparsemble.runs.provenance import provenance
from sparsemble.runs.source import Examples, Source, open_source
from sparsemble.seeds import derive
from sparsemble.stages import (
    ChainState,
    Finding,
    Observer,
    Sample,
    diagnose,
    draw_samples,
    prune,
    retrain,
)
from sparsemble.stages.observer import EpochRecord, Rollback
from sparsemble.stages.sampling import NetworkSource, initial_network
from sparsemble.store import tensor_digest
from sparsemble.structure import Layout

AnyEnsemble = TypeVar("AnyEnsemble", bound=BaseEnsemble, covariant=True)


@dataclass(frozen=True)
class Learned(Generic[AnyEnsemble]):
    """An ensemble and how it came about; `seconds` counts every epoch of each stage once."""

    ensemble: AnyEnsemble
    trace: list[EpochRecord]
    rollbacks: list[Rollback]
    findings: list[Finding]

    @property
    def seconds(self) -> dict[str, float]:
        """Training time of each stage, over all sessions of the run."""
        return {
            stage: sum(record.seconds for record in self.trace if record.stage == stage)
            for stage in ("chain", "retrain")
        }


@overload
def learn(
    network: NetworkSource,
    data: Examples,
    recipe: Recipe,
    *,
    layout: Layout | None = None,
    folder: str | Path | None = None,
    samples_folder: str | Path | None = None,
    num_data: int | None = None,
    observer: Observer | None = None,
) -> Learned[Ensemble]: ...


@overload
def learn(
    network: NetworkSource,
    data: Corpus,
    recipe: Recipe,
    *,
    layout: Layout | None = None,
    folder: str | Path | None = None,
    samples_folder: str | Path | None = None,
    num_data: int | None = None,
    observer: Observer | None = None,
) -> Learned[LanguageEnsemble]: ...


def learn(
    network: NetworkSource,
    data: Examples | Corpus,
    recipe: Recipe,
    *,
    layout: Layout | None = None,
    folder: str | Path | None = None,
    samples_folder: str | Path | None = None,
    num_data: int | None = None,
    observer: Observer | None = None,
) -> Learned[BaseEnsemble]:
    """Learn a sparse structured ensemble.

    `network` is a module (its weights are where the first chain starts) or a function that makes
    one; anything but a feed-forward `nn.Sequential` or a `LanguageModel` needs its `layout`. `data`
    is a `Dataset`, a pair of arrays, a `DataLoader` (then `num_data` may be needed), or a `Corpus`.
    With `folder` the run is kept on disk and goes on where it was stopped; runs that differ only
    after the chain may share `samples_folder`.
    """
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe of type {type(recipe).__name__}: load_recipe() makes one")
    blank = initial_network(network, 0, derive(recipe.seed, "chain", 0))
    layout = layout or layout_of(blank, recipe.grouping)
    layout.check(dict(blank.named_parameters()))
    source = open_source(data, blank, layout, recipe, num_data)
    for stage in (recipe.chain, recipe.retrain):
        if stage is not None:
            source.batches(
                stage.batch_size
            )  # a size that does not fit is told before anything runs
    run = _run_folder(folder, samples_folder)
    if run is not None:
        steps = source.batches(recipe.chain.batch_size).steps
        needed = disk_needed(blank, recipe, steps)
        check_disk(run.path, needed)
        (observer or Observer()).planned(run.path, needed)
    with stop_requests(catch=run is not None) as stop, _opened(run, recipe):
        if run is not None:
            identity = _identity(blank, source, layout, recipe)
            run.chain.claim(identity)
            after = recipe.model_dump(mode="json", include={"prune", "retrain"})
            run.retrain.claim({**identity, **after, "chains": recipe.chain.chains})
        stage1 = Keeper(run.chain if run is not None else None, observer, stop=stop)
        samples = _draw(network, layout, source, recipe, run, stage1)
        members = _members(blank, layout, samples, recipe)
        stage2 = Keeper(run.retrain if run is not None else None, observer, stop=stop)
        if recipe.retrain is not None:
            _retrain(members, source, recipe, run, stage2)
        ensemble = source.ensemble(members)
        if run is not None:
            ensemble.save(run.ensemble)
    trace = stage1.epochs + stage2.epochs
    findings = diagnose(trace, burn_in=recipe.chain.burn_in, labels=source.labels(ensemble))
    return Learned(ensemble, trace, stage1.rollbacks + stage2.rollbacks, findings)


def _run_folder(folder: str | Path | None, samples: str | Path | None) -> RunFolder | None:
    if folder is None:
        if samples is not None:
            raise InputError("samples_folder needs a run folder beside it")
        return None
    return RunFolder(Path(folder), Path(samples) if samples is not None else None)


@contextmanager
def _opened(run: RunFolder | None, recipe: Recipe) -> Iterator[None]:
    """Lock the run and compute as it was begun: another number of threads would change bits."""
    if run is None:
        yield
        return
    with run.locked():
        known = run.claim({"recipe": recipe.model_dump(mode="json"), **provenance()})
        threads = torch.get_num_threads()
        torch.set_num_threads(int(known["threads"]))
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _identity(blank: nn.Module, source: Source, layout: Layout, recipe: Recipe) -> dict[str, Any]:
    """What a chain's samples depend on; how many chains there are is not part of it."""
    description = f"{blank}\n{layout.spaces}\n{layout.slots}\n{layout.families}"
    return {
        "network": hashlib.sha256(_plain(description).encode()).hexdigest(),
        "initial weights": tensor_digest({n: p.detach() for n, p in blank.named_parameters()}),
        "data": source.fingerprint(),
        "prior": recipe.prior.model_dump(mode="json"),
        "chain": recipe.chain.model_dump(mode="json", exclude={"chains"}),
        "seed": recipe.seed,
    }


def _plain(description: str) -> str:
    """A description without memory addresses, which functions show."""
    return re.sub(r" at 0x[0-9a-f]+", "", description)


def _past(stage: StageFolder | None, keeper: Keeper) -> ChainState | None:
    """Give the keeper what the stage already recorded, and return where it stopped."""
    if stage is None:
        return None
    state = stage.checkpoint()
    stage.rewind_trace(state)
    epochs, rollbacks = stage.trace()
    keeper.epochs += epochs
    keeper.rollbacks += rollbacks
    return state


def _draw(
    network: NetworkSource,
    layout: Layout,
    source: Source,
    recipe: Recipe,
    run: RunFolder | None,
    keeper: Keeper,
) -> list[Sample]:
    batches = source.batches(recipe.chain.batch_size)
    wanted = set(recipe.chain.steps_to_collect(batches.steps))
    chains = recipe.chain.chains
    state = _past(run.chain if run is not None else None, keeper)
    known = run.chain.samples(state) if run is not None else []
    samples = draw_samples(
        network,
        layout,
        batches,
        recipe.prior,
        recipe.chain,
        seed=recipe.seed,
        observer=keeper,
        collected=[s for s in known if s.chain < chains and s.step in wanted],
        resume=state,
    )
    # The folder may hold more chains than this recipe asks for.
    keeper.epochs = [record for record in keeper.epochs if record.chain < chains]
    keeper.rollbacks = [record for record in keeper.rollbacks if record.chain < chains]
    return samples


def _members(
    blank: nn.Module, layout: Layout, samples: Sequence[Sample], recipe: Recipe
) -> list[Member]:
    """Prune and compact every sample, or take it as it is."""
    members = []
    for sample in samples:
        network = copy.deepcopy(blank)
        load_tensors(network, sample.parameters)
        if recipe.prune is None:
            members.append(Member.dense(network, layout))
        else:
            how = recipe.prune
            masks = prune(sample.parameters, layout, sparsity=how.sparsity, scope=how.scope)
            members.append(compact(network, layout, masks))
    return [member.eval() for member in members]


def _retrain(
    members: Sequence[Member],
    source: Source,
    recipe: Recipe,
    run: RunFolder | None,
    keeper: Keeper,
) -> None:
    assert recipe.retrain is not None
    state = _past(run.retrain if run is not None else None, keeper)
    finished = run.retrain.samples(state) if run is not None else []
    retrain(
        members,
        source.batches(recipe.retrain.batch_size),
        recipe.prior,
        recipe.retrain,
        seed=recipe.seed,
        observer=keeper,
        collected=finished,
        resume=state,
    )
