"""Retraining: the MAP estimate under each member's reduced posterior (Eq. 4).

SGD (the chain at temperature 0) on the weights that are left, with masks and prior kept; every
group keeps its original √dim. Members that can be computed as one stack are trained together,
others (recurrent ones, whose steps are long enough to fill a processor) one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from sparsemble.augmentations import AnyAugmentation
from sparsemble.caller_modes import in_own_modes
from sparsemble.data import Batches
from sparsemble.devices import Autocast
from sparsemble.errors import InputError
from sparsemble.members import Member, Stack
from sparsemble.priors import Prior
from sparsemble.samplers import SGLD, AnySchedule
from sparsemble.seeds import derive
from sparsemble.settings import Count, Positive, Settings
from sparsemble.stages.callback import Callback
from sparsemble.stages.chain import Chain
from sparsemble.stages.chain_state import ChainIdentity, ChainState
from sparsemble.stages.divergence import DivergenceSettings
from sparsemble.stages.samples import Sample
from sparsemble.stages.subject import Subject, learning_part
from sparsemble.stages.teaching import Teacher
from sparsemble.stages.updates import Update
from sparsemble.structure import Layout
from sparsemble.tasks import Forward, Task, takes_examples
from sparsemble.team import Team


class RetrainSettings(Settings):
    """How members are retrained."""

    schedule: AnySchedule
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """How long."""
    batch_size: Count = 100
    """Examples, or streams of a text, in a mini-batch."""
    clip: Positive | None = None
    """Limit of a member's gradient norm."""
    augment: AnyAugmentation | None = None
    """How inputs are perturbed."""
    targets: Literal["labels", "posterior"] | Annotated[float, Field(ge=0, le=1)] = "labels"
    """What is learned: labels, what the samples predict together, or the latter's share of both."""
    autocast: Autocast = False
    """As for the chain."""
    divergence: DivergenceSettings = DivergenceSettings()

    @property
    def taught(self) -> float:
        """The share of the loss that comes from the samples' predictions."""
        if isinstance(self.targets, str):
            return 1.0 if self.targets == "posterior" else 0.0
        return self.targets


@dataclass(frozen=True)
class _Group:
    """Members that are retrained as one computation; `write_back` hands them the result."""

    members: Sequence[Member]
    parameters: dict[str, Tensor]
    others: dict[str, Tensor]
    masks: dict[str, Tensor]
    layout: Layout
    batch_dims: int
    forward: Forward
    write_back: Callable[[], None]

    def finish(self) -> None:
        """The members get their weights, and are ready to predict."""
        self.write_back()
        for member in self.members:
            member.eval()


@dataclass(frozen=True)
class Retraining:
    """Stage 2 made ready: members that share no computation can be retrained by themselves.

    Args:
        members: Pruned and compact networks, changed in place.
        task: What they learn.
        batches: The training data in mini-batches.
        prior: The same as in the chain.
        settings: How long, and at which rate.
        samples: As they were before pruning; their predictions are learned if `settings.targets`
            says so.
        stage: What traces call it.
        seed: Of dropout and of the order of data after a rollback.
        team: The processes that compute every group together.
    """

    members: Sequence[Member]
    task: Task
    batches: Batches
    prior: Prior
    settings: RetrainSettings
    samples: Sequence[Member] = ()
    stage: str = "retrain"
    seed: int = 0
    team: Team | None = None

    def __post_init__(self) -> None:
        if not self.members:
            raise InputError("there are no members to retrain")
        if self.settings.taught and not self.samples:
            raise InputError(
                f"targets = {self.settings.targets!r} needs the samples whose predictions count"
            )

    @property
    def parts(self) -> int:
        """The groups of members that are one computation each."""
        return len(self.groups)

    @cached_property
    def groups(self) -> list[Sequence[Member]]:
        """The members, those together that are retrained in one computation."""
        return retrained_together(self.members, self.task)

    @cached_property
    def _teacher(self) -> Teacher | None:
        taught = self.settings.taught
        return Teacher(self.samples, self.task, taught) if taught else None

    def is_done(self, collected: Sequence[Sample]) -> bool:
        """Has a group been retrained?"""
        return bool(collected)

    @in_own_modes
    def run(
        self,
        number: int,
        callback: Callback | None = None,
        collected: Sequence[Sample] = (),
        resume: ChainState | None = None,
    ) -> list[Sample]:
        """Retrain a group in place; what its weights are then is returned as one sample.

        Args:
            number: Which group.
            callback: Told what happens.
            collected: What was returned, if that is known already.
            resume: The state of what was stopped.
        """
        callback = callback or Callback()
        group, total = self.groups[number], self.settings.epochs * self.batches.steps
        trained = _stacked(group) if _fit_together(group, self.task) else _alone(group, self.task)
        chain = self._chain(trained, number, callback)
        if collected:
            chain.move_to(collected[0].parameters)
            trained.finish()
            callback.recalled(collected[0])
            return list(collected)
        if resume is not None:
            chain.resume(resume)
        callback.started(self.stage, number, self.parts, chain.step, total)
        while not chain.run(total):
            pass  # thrown back by a divergence, which the callback was told
        trained.finish()
        sample = Sample(number, total, chain.copied())
        callback.sampled(sample, chain.state)
        return [sample]

    def _chain(self, group: _Group, number: int, callback: Callback) -> Chain:
        """The chain that retrains a group, before its first step."""
        settings, task = self.settings, self.task
        sampler = SGLD(
            group.parameters.values(),
            settings.schedule(0),
            num_data=self.batches.num_data,
            temperature=0.0,
        )
        bound = self.prior.bind(
            group.layout,
            group.parameters,
            sizes=group.members[0].origin.group_sizes,
            batch_dims=group.batch_dims,
        )
        return Chain(
            ChainIdentity(self.stage, number, derive(self.seed, self.stage, number)),
            Subject(
                group.parameters,
                group.forward,
                Update(sampler, bound),
                sum(member.cost.flops for member in group.members),
                group.others,
                group.masks,
                group.batch_dims,
            ),
            task=task,
            batches=self.batches,
            schedule=settings.schedule,
            augment=None if settings.augment is None else task.augmentation(settings.augment),
            teacher=self._teacher,
            clip=settings.clip,
            autocast=settings.autocast,
            team=self.team,
            divergence=settings.divergence,
            callback=callback,
        )


@in_own_modes
def retrain(
    members: Sequence[Member],
    task: Task,
    batches: Batches,
    prior: Prior,
    settings: RetrainSettings,
    *,
    samples: Sequence[Member] = (),
    stage: str = "retrain",
    seed: int = 0,
    callback: Callback | None = None,
) -> None:
    """Retrain members in place by a `Retraining`, which explains the arguments."""
    work = Retraining(members, task, batches, prior, settings, samples, stage, seed)
    for number in range(work.parts):
        work.run(number, callback)


def retrained_together(members: Sequence[Member], task: Task) -> list[Sequence[Member]]:
    """The members in groups, one for each chain of the retraining."""
    return [members] if _fit_together(members, task) else [[member] for member in members]


def _fit_together(members: Sequence[Member], task: Task) -> bool:
    return takes_examples(task) and Stack.fits(members)


def _alone(members: Sequence[Member], task: Task) -> _Group:
    (member,) = members
    member.train()
    return _Group(
        members,
        *learning_part(member.network),
        member.masks,
        member.layout,
        0,
        task.forward(member),
        write_back=lambda: None,
    )


def _stacked(members: Sequence[Member]) -> _Group:
    stack = Stack(members)
    stack.train()
    for parameter in stack.parameters.values():
        parameter.requires_grad_()
    return _Group(
        members,
        stack.parameters,
        {},
        stack.masks,
        stack.layout,
        1,
        Forward(stack),
        stack.write_back,
    )
