"""One call from a network and data to an ensemble: the stages, composed.

`learn` = draw samples → prune → compact → retrain → ensemble. Each stage can be called by hand;
this adds only the checks of what comes from outside, and a folder that makes it resumable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, overload

import torch
from torch import nn

from sparsemble.data import Corpus
from sparsemble.ensemble import BaseEnsemble, Ensemble, LanguageEnsemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.layouts.layers import without_addresses
from sparsemble.recipes import Recipe
from sparsemble.runs.disk import check_disk, disk_needed
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.interrupts import stop_requests
from sparsemble.runs.looks import Look
from sparsemble.runs.source import Examples, Source, open_source
from sparsemble.runs.steps import Steps
from sparsemble.seeds import STREAMS, derive
from sparsemble.stages import Finding, History, Observer, diagnose
from sparsemble.stages.sampling import NetworkSource, initial_network
from sparsemble.store import tensor_digest
from sparsemble.structure import Layout

_FITTED = 0.02
"""Below this error on training examples members have learned them, and agree for that reason."""
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
    observer = observer or Observer()
    blank, layout, source = fitted(network, data, recipe, layout, num_data, validation)
    run = _run_folder(folder, samples_folder)
    if run is not None:
        needed = disk_needed(blank, recipe, source.batches(recipe.chain.batch_size).steps)
        check_disk(run.path, run.chain.path, needed)
        observer.planned(run.path, needed)
    look = source.look()
    with stop_requests(catch=run is not None) as stop, _opened(run, recipe):
        if run is not None:
            _claim_stages(run, blank, source, layout, recipe)
        steps = Steps(network, blank, layout, source, recipe, run, look, observer, stop)
        members = steps.prune(steps.draw())
        steps.retrain(members)
        ensemble = source.ensemble(members)
        if run is not None:
            ensemble.save(run.ensemble)
    return Learned(ensemble, steps.history, _findings(ensemble, steps.history, recipe, look))


def fitted(
    network: NetworkSource,
    data: Examples | Corpus,
    recipe: Recipe,
    layout: Layout | None = None,
    num_data: int | None = None,
    validation: Examples | None = None,
) -> tuple[nn.Module, Layout, Source]:
    """A first network, its layout and the data, if they go together and with the recipe.

    What does not fit is told here, before anything runs or is written.
    """
    blank = initial_network(network, 0, derive(recipe.seed, "chain", 0))
    by_chance = recipe.chain.sampler.temperature > 0 or any(
        isinstance(module, nn.Dropout) and module.p for module in blank.modules()
    )
    if recipe.chain.chains > 1 and not by_chance:
        other = initial_network(network, 1, derive(recipe.seed, "chain", 1))
        if all(map(torch.equal, blank.parameters(), other.parameters())):
            raise InputError(
                "the function that makes networks gives every chain the same weights, so that at "
                "temperature 0 all would be the same: let it draw new ones each time"
            )
    layout = layout or layout_of(blank, recipe.grouping)
    layout.check(dict(blank.named_parameters()))
    if not layout.matrices:
        raise InputError("the layout has no matrices: say what a prediction multiplies by")
    source = open_source(data, blank, layout, recipe, num_data, validation)
    for stage in (recipe.chain, recipe.retrain):
        if stage is not None:
            source.batches(stage.batch_size)
    return blank, layout, source


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
        threads = run.claim(recipe)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _claim_stages(
    run: RunFolder, blank: nn.Module, source: Source, layout: Layout, recipe: Recipe
) -> None:
    """Tie the stages' folders to what their files depend on; not to how many chains there are."""
    description = f"{blank}\n{layout.spaces}\n{layout.slots}\n{layout.families}"
    identity = {
        "network": hashlib.sha256(without_addresses(description).encode()).hexdigest(),
        "initial weights": tensor_digest({n: p.detach() for n, p in blank.named_parameters()}),
        "data": source.fingerprint(),
        "prior": recipe.prior.model_dump(mode="json"),
        "chain": recipe.chain.model_dump(mode="json", exclude={"chains"}),
        "seed": recipe.seed,
        "random streams": STREAMS,
    }
    run.chain.claim(identity)
    after = recipe.model_dump(mode="json", include={"prune", "retrain"})
    run.retrain.claim({**identity, **after, "chains": recipe.chain.chains})


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
        seen=look.seen and history.samples[-1].together < _FITTED,
    )
