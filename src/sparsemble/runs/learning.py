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
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.interrupts import stop_requests
from sparsemble.runs.keeper import Keeper
from sparsemble.runs.looks import Look
from sparsemble.runs.meter import Meter
from sparsemble.runs.provenance import provenance
from sparsemble.runs.source import Examples, Source, open_source
from sparsemble.seeds import derive
from sparsemble.stages import (
    Finding,
    History,
    Observer,
    Sample,
    diagnose,
    draw_samples,
    prune,
    retrain,
)
from sparsemble.stages.retraining import retrained_together
from sparsemble.stages.sampling import NetworkSource, initial_network
from sparsemble.store import tensor_digest
from sparsemble.structure import Layout

AnyEnsemble = TypeVar("AnyEnsemble", bound=BaseEnsemble, covariant=True)


@dataclass(frozen=True)
class Learned(Generic[AnyEnsemble]):
    """An ensemble and how it came about; `seconds` counts every epoch of each stage once."""

    ensemble: AnyEnsemble
    history: History
    findings: list[Finding]

    @property
    def seconds(self) -> dict[str, float]:
        """Training time of each stage, over all sessions of the run."""
        return {
            stage: sum(record.seconds for record in self.history.epochs if record.stage == stage)
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
    validation: Examples | None = None,
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
    validation: Examples | None = None,
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
    validation: Examples | None = None,
    observer: Observer | None = None,
) -> Learned[BaseEnsemble]:
    """Learn a sparse structured ensemble.

    `network` is a module (its weights are where the first chain starts) or a function that makes
    one; anything but a feed-forward `nn.Sequential` or a `LanguageModel` needs its `layout`. `data`
    is a `Dataset`, a pair of arrays, a `DataLoader` (then `num_data` may be needed), or a `Corpus`.
    The growing ensemble is watched, for progress only, on `validation`, or else on training data.
    With `folder` the run is kept on disk and goes on where it was stopped; runs that differ only
    after the chain may share `samples_folder`.
    """
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe of type {type(recipe).__name__}: load_recipe() makes one")
    blank = initial_network(network, 0, derive(recipe.seed, "chain", 0))
    layout = layout or layout_of(blank, recipe.grouping)
    layout.check(dict(blank.named_parameters()))
    source = open_source(data, blank, layout, recipe, num_data, validation)
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
        look = source.look()
        watching = observer or Observer()
        meter = Meter("chain", look, lambda sample: [_dense(blank, layout, sample)])
        stage1 = Keeper(run.chain if run is not None else None, meter, watching, stop)
        samples = _draw(network, layout, source, recipe, stage1)
        history = stage1.history
        members = _members(blank, layout, samples, recipe)
        if run is not None and recipe.prune is not None:
            source.ensemble(members).save(run.pruned)
        if recipe.retrain is not None:
            groups = retrained_together(members)
            meter = Meter("retrain", look, lambda sample: groups[sample.chain])
            stage2 = Keeper(run.retrain if run is not None else None, meter, watching, stop)
            _retrain(members, source, recipe, stage2)
            history += stage2.history
        ensemble = source.ensemble(members)
        if run is not None:
            ensemble.save(run.ensemble)
    return Learned(ensemble, history, _findings(ensemble, history, recipe, look))


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


def _findings(
    ensemble: BaseEnsemble, history: History, recipe: Recipe, look: Look | None
) -> list[Finding]:
    """What the history and the members' predictions say about the recipe."""
    burn_in = recipe.chain.burn_in
    if look is None:
        return diagnose(history.epochs, burn_in=burn_in)
    return diagnose(
        history.epochs,
        burn_in=burn_in,
        labels=look.labels(ensemble),
        labels_of=look.on,
        seen=look.seen,
    )


def _draw(
    network: NetworkSource,
    layout: Layout,
    source: Source,
    recipe: Recipe,
    keeper: Keeper,
) -> list[Sample]:
    batches = source.batches(recipe.chain.batch_size)
    wanted = set(recipe.chain.steps_to_collect(batches.steps))
    chains = recipe.chain.chains
    state, known = keeper.resume()
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
    keeper.history = keeper.history.of_chains(chains)
    return samples


def _members(
    blank: nn.Module, layout: Layout, samples: Sequence[Sample], recipe: Recipe
) -> list[Member]:
    """Prune and compact every sample, or take it as it is."""
    how = recipe.prune
    if how is None:
        return [_dense(blank, layout, sample) for sample in samples]
    members = []
    for sample in samples:
        masks = prune(sample.parameters, layout, sparsity=how.sparsity, scope=how.scope)
        members.append(compact(_network(blank, sample), layout, masks).eval())
    return members


def _dense(blank: nn.Module, layout: Layout, sample: Sample) -> Member:
    """A sample as it is."""
    return Member.dense(_network(blank, sample), layout).eval()


def _network(blank: nn.Module, sample: Sample) -> nn.Module:
    network = copy.deepcopy(blank)
    load_tensors(network, sample.parameters)
    return network


def _retrain(
    members: Sequence[Member],
    source: Source,
    recipe: Recipe,
    keeper: Keeper,
) -> None:
    assert recipe.retrain is not None
    state, finished = keeper.resume()
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
