"""A rehearsal: one small batch goes all the way through a task before anything is learned.

A loss of the wrong shape or a metric that is not a number is then refused at once, with the name of
the method that gave it, and not after the chain has run for hours.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sparsemble.augmentations import Augmentation, checked
from sparsemble.data import Arguments, Inputs
from sparsemble.errors import InputError
from sparsemble.modes import in_mode
from sparsemble.programs import Program
from sparsemble.streams import borrowed_streams
from sparsemble.tasks import Scorer, Task, Training

_EXAMPLES = 2
_MEMBERS = 2


def rehearse(training: Training, network: nn.Module) -> None:
    """Raise `InputError` if network, data and task do not go together."""
    task = training.task
    inputs, targets = next(training.batches(_EXAMPLES).epoch(0))
    device = next(network.parameters()).device
    inputs, targets = inputs[:_EXAMPLES].to(device), targets[:_EXAMPLES].to(device)
    _check_kind(task, network, inputs)
    with torch.no_grad(), borrowed_streams(), in_mode(network):
        task.check(network, inputs[:1])
        outputs = task.forward(network)(inputs)
        _check_loss(task, outputs, targets)
        _check_metrics(task, outputs, targets)


def _check_kind(task: Task, network: nn.Module, inputs: Inputs) -> None:
    """Several inputs, or outputs, are for traced networks: others may be computed as one stack."""
    if isinstance(network, Program):
        return
    if not task.is_per_example:
        raise InputError(
            "the targets are classes of positions, for which networks are traced: leave the layout "
            "out"
        )
    if isinstance(inputs, Arguments):
        raise InputError(
            f"the data have {len(inputs.tensors)} inputs, and the network, which has a layout "
            "already, takes one: leave the layout out, or give one array"
        )


def rehearse_autocast(
    training: Training, network: nn.Module, settings: Sequence[str], device: torch.device
) -> None:
    """Raise `InputError` if the network cannot be trained in bfloat16 here, as `settings` ask.

    Not every processor has every operation in short floats: oneDNN's LSTM needs AVX-512, say.
    """
    task = training.task
    inputs, targets = next(training.batches(_EXAMPLES).epoch(0))
    tried = copy.deepcopy(network).to(device).train()
    try:
        with borrowed_streams():
            with torch.autocast(device.type, torch.bfloat16):
                outputs = task.forward(tried)(inputs[:_EXAMPLES].to(device))
                loss = task.loss(outputs, targets[:_EXAMPLES].to(device))
            loss.backward()
    except RuntimeError as error:
        why = str(error).partition("\n")[0].partition(". ")[0]
        raise InputError(
            f"{' and '.join(settings)} = true: {device} cannot compute this network in bfloat16 "
            f"({why}); leave it out"
        ) from None


def rehearse_augmentation(training: Training, augment: Augmentation) -> None:
    """Raise `InputError` if the inputs cannot be perturbed so, or are no inputs afterwards."""
    inputs, _ = next(training.batches(_EXAMPLES).epoch(0))
    if not isinstance(inputs, Tensor):
        raise InputError(
            f"{type(augment).__name__} perturbs a single input of numbers, and the network takes "
            "several, or integers: leave augment out"
        )
    checked(training.task.augmentation(augment), inputs[:_EXAMPLES])


def _check_loss(task: Task, outputs: Tensor, targets: Tensor) -> None:
    one = task.loss(outputs, targets)
    _check_shape(task, "loss", one, (), "a batch of one network")
    several = task.loss(torch.stack([outputs] * _MEMBERS), targets)
    _check_shape(task, "loss", several, (_MEMBERS,), f"outputs of {_MEMBERS} members")


def _check_shape(
    task: Task, method: str, found: object, shape: tuple[int, ...], given: str
) -> None:
    if not isinstance(found, Tensor) or tuple(found.shape) != shape:
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"{type(task).__name__}.{method} must return a tensor of shape {shape} for {given}, "
            f"not {got}"
        )


def _check_metrics(task: Task, outputs: Tensor, targets: Tensor) -> None:
    evidence = torch.stack([task.evidence(outputs, targets)] * _MEMBERS)
    scorer = Scorer(task)
    scorer.update(evidence, targets)
    try:
        score = scorer.compute()
    except KeyError as missing:
        raise InputError(
            f"{type(task).__name__}.figures must return every metric: {missing} is missing"
        ) from None
    for key, value in score.metrics.items():
        if not math.isfinite(value):
            raise InputError(
                f"{type(task).__name__}.figures gives {value} for the metric {key!r}: a number is "
                "needed"
            )
