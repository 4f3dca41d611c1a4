"""Stage 1: run chains over the posterior and collect samples of the network (Section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from sparsemble.augmentations import AnyAugmentation
from sparsemble.caller_modes import in_own_modes
from sparsemble.data import Batches
from sparsemble.devices import Autocast, usable_device
from sparsemble.errors import CorruptFileError
from sparsemble.members import Member
from sparsemble.priors import Prior
from sparsemble.samplers import AnySampler, AnySchedule, Cyclical, SGLDSettings
from sparsemble.seeds import derive
from sparsemble.settings import Count, Positive, Settings
from sparsemble.stages.averaging import is_useless, loss_of, spacing
from sparsemble.stages.callback import Callback
from sparsemble.stages.chain import Chain
from sparsemble.stages.chain_state import ChainIdentity, ChainState
from sparsemble.stages.collection import Collection, collection_steps
from sparsemble.stages.divergence import DivergenceSettings
from sparsemble.stages.history import Jump
from sparsemble.stages.patience import Patience
from sparsemble.stages.samples import Sample
from sparsemble.stages.shedding import Shedding
from sparsemble.stages.starting import NetworkSource, check_plain, initial_network
from sparsemble.stages.statistics import re_estimate
from sparsemble.stages.subject import Subject, learning_part
from sparsemble.stages.updates import PriorStep, Update, check_proximal
from sparsemble.structure import Layout
from sparsemble.tasks import Task
from sparsemble.team import Team


class ChainSettings(Settings):
    """How the posterior is sampled; the defaults are the paper's for MNIST, but for T."""

    sampler: AnySampler = SGLDSettings()
    schedule: AnySchedule
    batch_size: Count = 100
    """Examples, or streams of a text, in a mini-batch."""
    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    """Length of a chain."""
    chains: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Independent chains."""
    collection: Collection = "means"
    """Means of the weights over every interval, the iterates at its end, the last iterates, or
    those at the end of every cycle of the schedule."""
    average_every: Count = 5
    """Steps between the iterates that a mean is made of."""
    every: Count = 1
    """Steps from one prior and noise to the next, which then are as many times as strong."""
    prior_step: PriorStep = "gradient"
    """The prior acts by its gradient, or by a proximal step, which makes exact zeros."""
    burn_in: Annotated[int, Field(ge=0, le=1_000_000)] = 10
    """Epochs before the first interval begins."""
    interval: Count = 5
    """Epochs between samples."""
    samples: Count | None = None
    """Samples per chain; by default as many as fit; required for backward collection."""
    patience: Count | None = None
    """End a chain after so many samples in a row that validation data find no better than the best
    before, which then is its last; by default it runs to its end."""
    augment: AnyAugmentation | None = None
    """How inputs are perturbed: it regularises."""
    clip: Positive | None = None
    """Limit of the gradient's norm, before prior and noise."""
    shed_after: Count | None = None
    """Remove units from the running chain once the prior has held them at zero for so many epochs;
    by default all stay."""
    autocast: Autocast = False
    """Compute the network in bfloat16 where that is safe; weights and updates stay as they are.
    With auto only on devices that multiply in it."""
    divergence: DivergenceSettings = DivergenceSettings()

    @model_validator(mode="after")
    def _has_samples(self) -> Self:
        self.steps_to_collect(steps_per_epoch=self.samples or 1)
        return self

    @model_validator(mode="after")
    def _prior_can_act(self) -> Self:
        if self.prior_step == "proximal":
            check_proximal(self.sampler.sampler)
        return self

    def what_samples_depend_on(self) -> dict[str, Any]:
        """All but the number of chains, in JSON, and without `shed_after` where all units stay, so
        that runs begun before there was such a setting can go on."""
        ignored = {"chains"} | ({"shed_after"} if self.shed_after is None else set())
        return self.model_dump(mode="json", exclude=ignored)

    def steps_to_collect(self, steps_per_epoch: int) -> tuple[int, ...]:
        """The steps after which each chain gives a sample."""
        return collection_steps(
            collection=self.collection,
            epochs=self.epochs,
            burn_in=self.burn_in,
            interval=self.interval,
            samples=self.samples,
            steps_per_epoch=steps_per_epoch,
            cycles=self.schedule.ends(self.epochs) if isinstance(self.schedule, Cyclical) else None,
        )


@dataclass(frozen=True)
class Drawing:
    """Stage 1 made ready: each of its chains can be run by itself, in any process.

    Args:
        network: A module, whose weights are where the first chain starts, or a function that makes
            a freshly initialised one.
        layout: Its layout, with the groups that the prior needs.
        task: What is learned; `task.training(data).task` knows the data.
        batches: The training data in mini-batches.
        prior: Over the weights.
        settings: How the posterior is sampled.
        seed: Everything random follows from it.
        device: Where to compute; samples are kept in main memory.
        judge: How good a sample is on validation data, lower being better; `patience` needs it.
        team: The processes that compute every chain together.
    """

    network: NetworkSource
    layout: Layout
    task: Task
    batches: Batches
    prior: Prior
    settings: ChainSettings
    seed: int = 0
    device: str | torch.device = "cpu"
    judge: Callable[[Sample], float] | None = None
    team: Team | None = None

    @property
    def parts(self) -> int:
        """The chains."""
        return self.settings.chains

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """After which each chain gives a sample."""
        return self.settings.steps_to_collect(self.batches.steps)

    def is_done(self, collected: Sequence[Sample]) -> bool:
        """Has a chain given all samples that it ever will?"""
        if _next(self.steps, collected) is None:
            return True
        return Patience(self.settings.patience, self.judge).is_exhausted(collected)

    @in_own_modes
    def run(
        self,
        number: int,
        callback: Callback | None = None,
        collected: Sequence[Sample] = (),
        resume: ChainState | None = None,
    ) -> list[Sample]:
        """Run a chain to its end and return its samples, in order.

        Args:
            number: Which chain.
            callback: Told what happens.
            collected: Samples that it had taken before it was stopped.
            resume: Its state then.
        """
        callback = callback or Callback()
        steps, patience = self.steps, Patience(self.settings.patience, self.judge)
        samples = [sample for sample in collected if sample.step in set(steps)]
        for sample in samples:
            callback.recalled(sample)
        if _next(steps, samples) is None or patience.is_exhausted(samples):
            return patience.without_the_worse(samples)
        whole, chain, shedding = self._begun(number, callback)
        if resume is not None:
            chain.resume(resume)
        _check_complete(steps, samples, chain)
        callback.started("chain", number, self.parts, chain.step, steps[-1])
        while (step := _next(steps, samples)) is not None:
            if patience.is_exhausted(samples):
                break
            if chain.mean is not None:
                chain.mean.begin(max(step - self.settings.interval * self.batches.steps, 0))
            if chain.run(step):
                now = whole if shedding is None else shedding.member
                parameters = _collected(chain, now, self.task, self.batches, callback)
                units = {} if now.layout.sizes == self.layout.sizes else now.origin.units
                sample = Sample(number, step, parameters, units)
                samples.append(sample)
                callback.sampled(sample, chain.state)
            else:
                # What was sampled on the way to a divergence is no sample of the posterior.
                samples = [sample for sample in samples if sample.step <= chain.step]
        return patience.without_the_worse(sorted(samples, key=lambda sample: sample.step))

    def _begun(self, number: int, callback: Callback) -> tuple[Member, Chain, Shedding | None]:
        """The whole network, its chain before the first step, and what makes it smaller."""
        device, seed = usable_device(self.device), derive(self.seed, "chain", number)
        moving = self.task.prepared(initial_network(self.network, number, seed)).to(device)
        check_plain(moving)
        whole = Member.dense(moving, self.layout).to(device)
        settings, task = self.settings, self.task

        def subject(member: Member) -> Subject:
            return self._subject(member, derive(seed, "noise", 0))

        every = spacing(settings.average_every, settings.interval * self.batches.steps)
        after = settings.shed_after
        shedding = None if after is None else Shedding(whole, subject, after)
        chain = Chain(
            ChainIdentity("chain", number, seed),
            subject(whole),
            task=task,
            batches=self.batches,
            schedule=settings.schedule,
            augment=None if settings.augment is None else task.augmentation(settings.augment),
            clip=settings.clip,
            autocast=settings.autocast,
            team=self.team,
            average_every=every if settings.collection == "means" else None,
            shedding=shedding,
            divergence=settings.divergence,
            callback=callback,
        )
        return whole, chain, shedding

    def _subject(self, member: Member, seed: int) -> Subject:
        """What moves, of a member that is whole or has shed units."""
        member.train()
        settings = self.settings
        parameters, others = learning_part(member.network)
        sampler = settings.sampler.build(
            parameters.values(),
            lr=settings.schedule(0),
            num_data=self.batches.num_data,
            seed=seed,
        )
        bound = self.prior.bind(member.layout, parameters, sizes=member.origin.group_sizes)
        update = Update(sampler, bound, every=settings.every, prior_step=settings.prior_step)
        return Subject(parameters, self.task.forward(member), update, member.cost.flops, others)


def draw_samples(
    network: NetworkSource,
    layout: Layout,
    task: Task,
    batches: Batches,
    prior: Prior,
    settings: ChainSettings,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    callback: Callback | None = None,
    judge: Callable[[Sample], float] | None = None,
    collected: Sequence[Sample] = (),
    resume: ChainState | None = None,
) -> list[Sample]:
    """Run the chains of a `Drawing`, one after the other, and return their samples, in order.

    `Drawing` and its `run` explain the arguments; what was `collected` may be of all chains, the
    state to `resume` is that of one.
    """
    drawing = Drawing(network, layout, task, batches, prior, settings, seed, device, judge)
    samples = []
    for number in range(drawing.parts):
        known = [sample for sample in collected if sample.chain == number]
        its_own = resume is not None and resume.numbers["chain"] == number
        samples += drawing.run(number, callback, known, resume if its_own else None)
    return samples


def _next(steps: Sequence[int], samples: Sequence[Sample]) -> int | None:
    """The first step at which the chain still owes a sample."""
    taken = {sample.step for sample in samples}
    return next((step for step in steps if step not in taken), None)


def _check_complete(steps: Sequence[int], samples: Sequence[Sample], chain: Chain) -> None:
    """A resumed chain cannot take samples of steps that lie behind it."""
    owed = _next(steps, samples)
    if owed is not None and owed < chain.step:
        raise CorruptFileError(
            f"the sample of step {owed} of chain {chain.identity.number} is missing, and the chain "
            f"is already at step {chain.step}; remove its checkpoint to draw it again"
        )


def _collected(
    chain: Chain, member: Member, task: Task, batches: Batches, callback: Callback
) -> dict[str, Tensor]:
    """The mean of the window that ends here, or, if it is useless, the chain's own parameters."""
    iterate = chain.copied()
    if chain.mean is None:
        return iterate
    own = loss_of(member, task, batches)
    mean = dict(zip(chain.parameters, chain.mean.value(), strict=True))
    chain.move_to(iterate | mean)
    re_estimate(member, task, batches)
    averaged = loss_of(member, task, batches)
    sample = chain.copied()
    chain.move_to(iterate)
    if is_useless(averaged, own, task.guess(batches)):
        callback.jumped(Jump("chain", chain.identity.number, chain.step, averaged, own))
        return iterate
    return sample
