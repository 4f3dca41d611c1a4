"""One call from a network and data to an ensemble: the stages, composed.

`learn` = draw samples → prune → compact → retrain → ensemble. Each stage can be called by hand;
this adds only the checks of what comes from outside, and a folder that makes it resumable.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from sparsemble.data import ArrayBatches, Batches, Dataset, LoaderBatches, Scaling, as_dataset
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import feedforward_layout
from sparsemble.members import Member, compact, load_tensors
from sparsemble.recipes import Recipe
from sparsemble.runs.folder import RunFolder
from sparsemble.runs.keeper import Keeper
from sparsemble.runs.provenance import provenance
from sparsemble.seeds import derive
from sparsemble.stages import Finding, Observer, Sample, diagnose, draw_samples, prune, retrain
from sparsemble.stages.observer import EpochRecord, Rollback
from sparsemble.stages.sampling import NetworkSource, initial_network
from sparsemble.structure import Layout

Data = Dataset | tuple[Any, Any] | DataLoader[Any]


@dataclass(frozen=True)
class Learned:
    """An ensemble and how it came about."""

    ensemble: Ensemble
    trace: list[EpochRecord]
    rollbacks: list[Rollback]
    findings: list[Finding]
    seconds: dict[str, float]


def learn(
    network: NetworkSource,
    data: Data,
    recipe: Recipe,
    *,
    layout: Layout | None = None,
    folder: str | Path | None = None,
    samples_folder: str | Path | None = None,
    num_data: int | None = None,
    observer: Observer | None = None,
) -> Learned:
    """Learn a sparse structured ensemble.

    `network` is a module (its weights are where the first chain starts) or a function that makes
    one; anything but a feed-forward `nn.Sequential` needs its `layout`. `data` is a `Dataset`, a
    pair of arrays, or a `DataLoader` (then `num_data` may be needed). With `folder` the run is kept
    on disk and goes on where it was stopped; runs that differ only after the chain may share
    `samples_folder`.
    """
    blank = initial_network(network, 0, derive(recipe.seed, "chain", 0))
    layout = layout or feedforward_layout(blank, recipe.grouping)
    layout.check(dict(blank.named_parameters()))
    source = _Source(data, layout, recipe, num_data)
    run = _run_folder(folder, samples_folder)
    with run.locked() if run is not None else nullcontext():
        if run is not None:
            run.claim({"recipe": recipe.model_dump(mode="json"), **provenance()})
        keeper = _keeper(run and run.chain, observer, _identity(blank, source, layout, recipe))
        started = time.perf_counter()
        samples = _draw(network, layout, source, recipe, run, keeper)
        drawn = time.perf_counter()
        members = _members(blank, layout, samples, recipe)
        stage2 = Keeper(run.retrain if run is not None else None, observer)
        if recipe.retrain is not None:
            _retrain(members, source, recipe, run, stage2)
        dense = Member.dense(blank, layout).cost
        ensemble = Ensemble(
            members,
            scaling=source.scaling,
            class_names=source.class_names,
            feature_names=source.feature_names,
            dense_cost=(dense.parameters, dense.flops),
        )
        if run is not None:
            ensemble.save(run.ensemble)
    seconds = {"chain": drawn - started, "prune and retrain": time.perf_counter() - drawn}
    epochs = keeper.epochs + stage2.epochs
    return Learned(
        ensemble,
        epochs,
        keeper.rollbacks + stage2.rollbacks,
        diagnose(epochs, burn_in=recipe.chain.burn_in, probabilities=source.probe(ensemble)),
        seconds,
    )


class _Source:
    """The data of a run, however it was given."""

    def __init__(self, data: Data, layout: Layout, recipe: Recipe, num_data: int | None) -> None:
        classes = layout.outputs.size
        self.scaling = Scaling.none()
        self.class_names: Sequence[str] | None = None
        self.feature_names: Sequence[str] | None = None
        self._classes = classes
        self._seed = derive(recipe.seed, "batches")
        self._num_data = num_data
        self._data: Dataset | DataLoader[Any]
        if isinstance(data, DataLoader):
            self._data = data
            self.batches(1)
        else:
            checked = data if isinstance(data, Dataset) else as_dataset(*data, num_classes=classes)
            if len(checked.class_names) != classes:
                raise InputError(
                    f"the data has {len(checked.class_names)} classes, the network's last layer "
                    f"{classes}"
                )
            _check_width(checked, layout)
            self._data = checked
            self.scaling = checked.scaling
            self.class_names = checked.class_names
            self.feature_names = checked.feature_names

    def batches(self, batch_size: int) -> Batches:
        """Mini-batches of the training data; a loader brings its own size."""
        if isinstance(self._data, DataLoader):
            return LoaderBatches(
                self._data, self._seed, num_classes=self._classes, num_data=self._num_data
            )
        return ArrayBatches(self._data, batch_size, self._seed)

    def fingerprint(self) -> str:
        """What identifies the training data."""
        if isinstance(self._data, DataLoader):
            return f"loader of {self._num_data or self.batches(1).num_data} examples"
        digest = hashlib.sha256()
        for tensor in (self._data.inputs, self._data.targets):
            digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def probe(self, ensemble: Ensemble, count: int = 2000) -> torch.Tensor | None:
        """The members' predictions on some training inputs, to see how they differ."""
        if isinstance(self._data, DataLoader):
            return None
        return ensemble.member_probabilities(self._data.inputs[:count])


def _draw(
    network: NetworkSource,
    layout: Layout,
    source: _Source,
    recipe: Recipe,
    run: RunFolder | None,
    keeper: Keeper,
) -> list[Sample]:
    batches = source.batches(recipe.chain.batch_size)
    wanted = set(recipe.chain.steps_to_collect(batches.steps))
    collected: list[Sample] = []
    state = None
    if run is not None:
        known = run.chain.samples()
        collected = [s for s in known if s.chain < recipe.chain.chains and s.step in wanted]
        state = run.chain.checkpoint()
        run.chain.rewind_trace(state)
        epochs, rollbacks = run.chain.trace()
        keeper.epochs += [record for record in epochs if record.chain < recipe.chain.chains]
        keeper.rollbacks += [record for record in rollbacks if record.chain < recipe.chain.chains]
    return draw_samples(
        network,
        layout,
        batches,
        recipe.prior,
        recipe.chain,
        seed=recipe.seed,
        observer=keeper,
        collected=collected,
        resume=state,
    )


def _members(
    blank: nn.Module, layout: Layout, samples: Sequence[Sample], recipe: Recipe
) -> list[Member]:
    """Prune and compact every sample, or take it as it is."""
    members = []
    for sample in samples:
        network = _filled(blank, sample)
        if recipe.prune is None:
            members.append(Member.dense(network, layout))
        else:
            masks = prune(
                sample.parameters,
                layout,
                sparsity=recipe.prune.sparsity,
                scope=recipe.prune.scope,
            )
            members.append(compact(network, layout, masks))
    return [member.eval() for member in members]


def _filled(blank: nn.Module, sample: Sample) -> nn.Module:
    import copy

    network = copy.deepcopy(blank)
    load_tensors(network, sample.parameters)
    return network


def _retrain(
    members: Sequence[Member],
    source: _Source,
    recipe: Recipe,
    run: RunFolder | None,
    keeper: Keeper,
) -> None:
    assert recipe.retrain is not None
    state = None
    if run is not None:
        state = run.retrain.checkpoint()
        run.retrain.rewind_trace(state)
        epochs, rollbacks = run.retrain.trace()
        if state is None:
            epochs, rollbacks = [], []
        keeper.epochs += epochs
        keeper.rollbacks += rollbacks
    retrain(
        members,
        source.batches(recipe.retrain.batch_size),
        recipe.prior,
        recipe.retrain,
        seed=recipe.seed,
        observer=keeper,
        resume=state,
    )


def _run_folder(folder: str | Path | None, samples: str | Path | None) -> RunFolder | None:
    if folder is None:
        if samples is not None:
            raise InputError("samples_folder needs a run folder beside it")
        return None
    return RunFolder(Path(folder), Path(samples) if samples is not None else None)


def _keeper(
    stage: Any, observer: Observer | None, identity: Callable[[], dict[str, Any]]
) -> Keeper:
    if stage is not None:
        stage.claim(identity())
    return Keeper(stage, observer)


def _identity(
    blank: nn.Module, source: _Source, layout: Layout, recipe: Recipe
) -> Callable[[], dict[str, Any]]:
    """What a chain's samples depend on; how many chains there are is not part of it."""

    def fields() -> dict[str, Any]:
        chain = recipe.chain.model_dump(mode="json")
        del chain["chains"]
        return {
            "network": {name: list(p.shape) for name, p in blank.named_parameters()},
            "layout": layout.name,
            "data": source.fingerprint(),
            "prior": recipe.prior.model_dump(mode="json"),
            "chain": chain,
            "seed": recipe.seed,
        }

    return fields


def _check_width(data: Dataset, layout: Layout) -> None:
    space = layout.inputs
    width = data.inputs[0].numel()
    if space is not None and space.size != width:
        raise InputError(f"the data has {width} features, the network's first layer {space.size}")
