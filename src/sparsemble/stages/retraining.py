"""Retraining: the MAP estimate under each member's reduced posterior (Eq. 4).

SGD (the chain at temperature 0) on the weights that are left, with masks and prior kept; every
group keeps its original √dim. Feed-forward members are trained together, as one stack; language
models, whose steps are long enough to fill a processor, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from sparsemble.data import Batches
from sparsemble.errors import InputError
from sparsemble.layouts import LanguageModel
from sparsemble.members import Member, Stack
from sparsemble.priors import Prior
from sparsemble.samplers import SGLD, AnySchedule
from sparsemble.seeds import derive
from sparsemble.settings import Positive, Settings
from sparsemble.stages.chain import Chain, ChainIdentity, ChainState
from sparsemble.stages.divergence import DivergenceSettings
from sparsemble.stages.objectives import (
    LanguageModelling,
    Objective,
    SummedClassification,
    window_of,
)
from sparsemble.stages.observer import Observer
from sparsemble.stages.sampling import Sample, parameters_of
from sparsemble.structure import Layout


class RetrainSettings(Settings):
    """How members are retrained."""

    schedule: AnySchedule
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """How long."""
    batch_size: Annotated[int, Field(ge=1)] = 100
    """Examples, or streams of a text, in a mini-batch."""
    clip: Positive | None = None
    """Limit of a member's gradient norm."""
    autocast: bool = False
    """As for the chain."""
    divergence: DivergenceSettings = DivergenceSettings()


@dataclass(frozen=True)
class Trainee:
    """Members that are retrained as one computation; `write_back` hands them the result."""

    parameters: dict[str, Tensor]
    masks: dict[str, Tensor]
    layout: Layout
    batch_dims: int
    objective: Objective
    write_back: Callable[[], None]


def retrain(
    members: Sequence[Member],
    batches: Batches,
    prior: Prior,
    settings: RetrainSettings,
    *,
    seed: int = 0,
    observer: Observer | None = None,
    collected: Sequence[Sample] = (),
    resume: ChainState | None = None,
) -> None:
    """Retrain `members` in place.

    `collected` (what was finished) and `resume` (the state of what was under way) go on with a
    stopped run of the same members.
    """
    if not members:
        raise InputError("there are no members to retrain")
    observer = observer or Observer()
    finished = {sample.chain: sample for sample in collected}
    total = settings.epochs * batches.steps
    groups = retrained_together(members)
    for number, group in enumerate(groups):
        trainee = _trainee(group, batches)
        chain = _chain(trainee, number, members[0], batches, prior, settings, seed, observer)
        if number in finished:
            chain.move_to(finished[number].parameters)
            _finish(group, trainee)
            observer.recalled(finished[number])
            continue
        if resume is not None and resume.numbers["chain"] == number:
            chain.resume(resume)
        observer.started("retrain", number, len(groups), chain.step, total)
        while not chain.run(total):
            pass  # thrown back by a divergence, which the observer was told
        _finish(group, trainee)
        observer.sampled(Sample(number, total, parameters_of(chain)), chain.state)


def _finish(members: Sequence[Member], trainee: Trainee) -> None:
    """The members get their weights, and are ready to predict."""
    trainee.write_back()
    for member in members:
        member.eval()


def retrained_together(members: Sequence[Member]) -> list[Sequence[Member]]:
    """The members in groups, one for each chain of the retraining."""
    if is_retrained_alone(members[0].network):
        return [[member] for member in members]
    return [members]


def is_retrained_alone(network: nn.Module) -> bool:
    """Does a member of this kind have a chain of its own, not one that all members share?"""
    return isinstance(network, LanguageModel)


def _trainee(members: Sequence[Member], batches: Batches) -> Trainee:
    if is_retrained_alone(members[0].network):
        return _alone(members[0], batches)
    return _stacked(members)


def _alone(member: Member, batches: Batches) -> Trainee:
    network = member.network
    assert isinstance(network, LanguageModel)
    network.train()
    return Trainee(
        dict(network.named_parameters()),
        member.masks,
        member.layout,
        0,
        LanguageModelling(network, window_of(batches)),
        write_back=lambda: None,
    )


def _stacked(members: Sequence[Member]) -> Trainee:
    stack = Stack(members)
    stack.train()
    for parameter in stack.parameters.values():
        parameter.requires_grad_()
    return Trainee(
        stack.parameters,
        stack.masks,
        stack.layout,
        1,
        SummedClassification(stack, stack.layout.outputs.size),
        stack.write_back,
    )


def _chain(
    trainee: Trainee,
    number: int,
    member: Member,
    batches: Batches,
    prior: Prior,
    settings: RetrainSettings,
    seed: int,
    observer: Observer,
) -> Chain:
    """The chain that retrains one trainee, before its first step."""
    return Chain(
        ChainIdentity("retrain", number, derive(seed, "retrain", number)),
        parameters=trainee.parameters,
        objective=trainee.objective,
        batches=batches,
        prior=prior.bind(
            trainee.layout,
            trainee.parameters,
            sizes=member.origin.group_sizes,
            batch_dims=trainee.batch_dims,
        ),
        sampler=SGLD(
            trainee.parameters.values(),
            settings.schedule(0),
            num_data=batches.num_data,
            temperature=0.0,
        ),
        schedule=settings.schedule,
        masks=trainee.masks,
        clip=settings.clip,
        autocast=settings.autocast,
        batch_dims=trainee.batch_dims,
        divergence=settings.divergence,
        observer=observer,
    )
