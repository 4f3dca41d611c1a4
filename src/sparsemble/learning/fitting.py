"""What comes from outside, checked: do network, layout, data and recipe go together?

What does not is refused here, before anything runs or is written.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sparsemble.errors import CorruptFileError, InputError
from sparsemble.layouts import layout_of
from sparsemble.layouts.known import is_known
from sparsemble.learning.describing import Tracer
from sparsemble.learning.rehearsal import rehearse, rehearse_augmentation, rehearse_autocast
from sparsemble.members import Member, filled, tensors_of, with_units
from sparsemble.memory import bytes_of, check_memory
from sparsemble.nets.layers import without_addresses
from sparsemble.programs import Program
from sparsemble.programs.writing import blueprint_to_json
from sparsemble.recipes import Recipe
from sparsemble.seeds import derive
from sparsemble.stages import Sample
from sparsemble.stages.starting import (
    NetworkSource,
    TracedSource,
    check_plain,
    initial_network,
    is_plain,
)
from sparsemble.stages.unit_pruning import least_flops
from sparsemble.store import tensor_digest
from sparsemble.structure import Layout
from sparsemble.structure.costs import BYTES_EACH
from sparsemble.structure.groupings import grouped
from sparsemble.tasks import Task, Training, task_for

_COPIES = 4
"""Of the weights, at least: where chains start, a chain's own, gradients, what it goes back to."""
_HELD_OUT = 0.2
"""Share of the training data that is set aside to choose on,"""
_MOST_HELD_OUT = 5000
"""unless so many examples are enough."""


@dataclass(frozen=True)
class Fitted:
    """A network, its layout and the data, found to go together and with the recipe.

    `blank` is a network of the run's kind, to put samples into; `network` is where chains start.
    """

    network: NetworkSource
    blank: nn.Module
    layout: Layout
    training: Training

    @property
    def task(self) -> Task:
        """What is learned, completed by the data."""
        return self.training.task

    @property
    def description(self) -> str:
        """Network and layout in words, the same in every process; of a traced one every step."""
        layout, blank = self.layout, self.blank
        words = f"{blank}\n{layout.spaces}\n{layout.slots}\n{layout.families}"
        if isinstance(blank, Program):
            words += f"\n{json.dumps(blueprint_to_json(blank.blueprint_), sort_keys=True)}"
        return without_addresses(words)

    @property
    def initial_weights(self) -> str:
        """A digest of where the first chain starts."""
        return tensor_digest({n: tensor.detach() for n, tensor in tensors_of(self.blank).items()})

    def dense(self, sample: Sample) -> Member:
        """A sample as it is; one of another network is a `CorruptFileError`."""
        self.check(sample)
        if sample.units:
            return with_units(self.blank, self.layout, sample.parameters, sample.units).eval()
        return Member.dense(filled(self.blank, sample.parameters), self.layout).eval()

    def check(self, sample: Sample) -> None:
        """Is it one of this network? Its file may have been anyone's."""
        sizes = dict(self.layout.sizes)
        sizes |= {name: units.numel() for name, units in sample.units.items()}
        own = tensors_of(self.blank)
        lacking = own.keys() - sample.parameters.keys()
        if lacking:
            raise CorruptFileError(
                f"the sample of step {sample.step} of chain {sample.chain} is not one of this "
                f"network: it lacks {min(lacking)!r}"
            )
        for name, tensor in sample.parameters.items():
            if name in own:
                wanted = self.layout.shape_with(sizes, name, own[name].shape), own[name].dtype
                if (list(tensor.shape), tensor.dtype) == wanted:
                    continue
            raise CorruptFileError(
                f"the sample of step {sample.step} of chain {sample.chain} is not one of this "
                f"network: {name!r} has shape {tuple(tensor.shape)} and is {tensor.dtype}"
            )


def held_out(task: Task, data: Any, validation: Any, seed: int) -> tuple[Any, Any]:
    """Training data of a usual scale and validation data: those given, or a part set aside."""
    if validation is None:
        chosen_by = derive(seed, "validation")
        data, validation = task.hold_out(data, _HELD_OUT, _MOST_HELD_OUT, chosen_by)
    return task.scaled(data), validation


def fit(
    network: NetworkSource,
    data: Any,
    recipe: Recipe,
    task: Task | None = None,
    layout: Layout | None = None,
    num_data: int | None = None,
    validation: Any = None,
    device: torch.device | None = None,
    tracer: Tracer | None = None,
) -> Fitted:
    """A first network, its layout and the data, if they go together and with the recipe.

    What does not fit is refused here, before anything runs or is written.
    """
    seed = derive(recipe.seed, "chain", 0)
    blank = initial_network(network, 0, seed)
    check_memory(_COPIES * bytes_of(blank), "learning, of which the weights are a quarter,")
    task = task or recipe.task or task_for(data)

    def training_for(task: Task, outputs: int | None) -> Training:
        return task.training(
            data,
            seed=recipe.seed,
            outputs=outputs,
            num_data=num_data,
            validation=validation,
            dtype=next(blank.parameters()).dtype,
        )

    training: Training | None = None
    if layout is not None or isinstance(network, TracedSource):
        layout = _layout(blank, layout, recipe)
        check_plain(blank)
    elif is_known(blank) and is_plain(blank):
        layout = _layout(blank, None, recipe)
        training = training_for(task, layout.outputs.size)
        if not training.task.is_per_example:  # layers are applied to every position
            layout = training = None
    if layout is None:
        assert not isinstance(network, TracedSource)
        tracer = tracer or Tracer()
        outputs = task.outputs_for(blank, data)
        task = task.for_network(blank, training_for(task, outputs))
        network, traced = tracer.trace(network, blank, training_for(task, outputs))
        layout = grouped(traced.layout, recipe.grouping or "outgoing")
        blank = network.traced(blank)
    training = training or training_for(task, layout.outputs.size)
    _check_chains_differ(network, blank, recipe)
    fitted = Fitted(network, training.task.prepared(blank), layout, training)
    _check(fitted, recipe, device or torch.device("cpu"))
    return fitted


def _check(fitted: Fitted, recipe: Recipe, device: torch.device) -> None:
    """Try what a recipe asks for, as far as that takes no time."""
    blank, layout, training = fitted.blank, fitted.layout, fitted.training
    _check_budget(recipe, blank, layout, training.batches(recipe.chain.batch_size).steps)
    rehearse(training, blank)
    if recipe.chain.shed_after is not None and recipe.prior.group_penalty == 0:
        raise InputError(
            f"chain.shed_after = {recipe.chain.shed_after}: the prior holds no group at zero; take "
            "prior.kind = 'group-sparse', or leave it out"
        )
    stages = {"chain": recipe.chain, "retrain": recipe.retrain}
    for stage in stages.values():
        if stage is not None:
            training.batches(stage.batch_size)
            if stage.augment is not None:
                rehearse_augmentation(training, stage.augment)
    _check_width(training.task, layout)
    short = [f"{n}.autocast" for n, own in stages.items() if own and own.autocast is True]
    if short:
        rehearse_autocast(training, blank, short, device)


def _layout(blank: nn.Module, layout: Layout | None, recipe: Recipe) -> Layout:
    if layout is None:
        layout = layout_of(blank, recipe.grouping)
    elif recipe.grouping is not None or not layout.families:
        layout = grouped(layout, recipe.grouping or "outgoing")
    layout.check(tensors_of(blank))
    if not layout.matrices:
        raise InputError("the layout has no matrices: say what a prediction multiplies by")
    return layout


def _check_budget(recipe: Recipe, blank: nn.Module, layout: Layout, steps: int) -> None:
    """A budget must leave every member at least one unit in every layer, and weights."""
    how = recipe.prune
    if how is None or how.sparsity is not None:
        return
    samples = recipe.chain.chains * len(recipe.chain.steps_to_collect(steps))
    dense, share = Member.dense(blank, layout), how.shares(1 if recipe.choose else samples)[-1]
    if share.suffices(dense):
        return
    least = least_flops(dict(blank.named_parameters()), layout) / dense.cost.flops
    if how.flops is not None and share.flops is not None and share.flops < least:
        each = math.ceil(1e4 * least * how.flops / share.flops) / 1e4
        raise InputError(
            f"prune.flops = {how.flops:g} is too small: with one unit in every layer such networks "
            f"take at least {each:g} of the dense one's FLOPs"
        )
    fixed, weights = layout.unpruned, dense.cost.parameters
    if how.parameters is not None and share.parameters is not None:
        each = how.parameters / share.parameters * (fixed + 1) / weights
        if how.parameters < each:
            raise InputError(
                f"prune.parameters = {how.parameters:g} is too small: such networks have at least "
                f"{math.ceil(1e4 * each) / 1e4:g} of the dense one's weights"
            )
    stays = BYTES_EACH * (dense.biases + fixed)
    raise InputError(
        f"prune.bytes = {how.bytes} is too small: biases and what else cannot be pruned take "
        f"{stays:,} of every member"
    )


def _check_width(task: Task, layout: Layout) -> None:
    """A network of the user's own may take any width; its layout does not."""
    features = task.sizes[0]
    if features and layout.inputs is not None and layout.inputs.size != features:
        raise InputError(
            f"the data has {features} features, the network's first layer {layout.inputs.size}"
        )


def _check_chains_differ(network: NetworkSource, blank: nn.Module, recipe: Recipe) -> None:
    """Later chains need weights of their own, which not every network can be given."""
    if recipe.chain.chains == 1:
        return
    other = initial_network(network, 1, derive(recipe.seed, "chain", 1))
    by_chance = (
        recipe.chain.sampler.temperature > 0
        or recipe.chain.augment is not None
        or any(isinstance(module, nn.Dropout) and module.p for module in blank.modules())
    )
    if not by_chance and all(map(torch.equal, blank.parameters(), other.parameters())):
        raise InputError(
            "the function that makes networks gives every chain the same weights, so that at "
            "temperature 0 all would be the same: let it draw new ones each time"
        )
