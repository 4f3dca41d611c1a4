"""Retraining: the MAP estimate under each member's reduced posterior (Eq. 4).

SGD (the chain at temperature 0) on the weights that are left, with masks and prior kept; every
group keeps its original √dim. All members are trained together, as one stack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from sparsemble.data import Batches
from sparsemble.errors import InputError
from sparsemble.members import Member, Stack
from sparsemble.priors import Prior
from sparsemble.samplers import SGLD, AnySchedule
from sparsemble.seeds import derive
from sparsemble.settings import Settings
from sparsemble.stages.chain import Chain, ChainIdentity, ChainState
from sparsemble.stages.divergence import DivergenceSettings
from sparsemble.stages.observer import Observer


class RetrainSettings(Settings):
    """How members are retrained."""

    schedule: AnySchedule
    epochs: Annotated[int, Field(ge=1)] = 20
    batch_size: Annotated[int, Field(ge=1)] = 100
    clip: Annotated[float, Field(gt=0)] | None = None
    divergence: DivergenceSettings = DivergenceSettings()


def retrain(
    members: Sequence[Member],
    batches: Batches,
    prior: Prior,
    settings: RetrainSettings,
    *,
    seed: int = 0,
    observer: Observer | None = None,
    resume: ChainState | None = None,
) -> None:
    """Retrain `members` in place, together; `resume` goes on with a stopped run of the same set."""
    if not members:
        raise InputError("there are no members to retrain")
    observer = observer or Observer()
    stack = Stack(members)
    stack.train()
    for parameter in stack.parameters.values():
        parameter.requires_grad_()
    identity = ChainIdentity("retrain", 0, derive(seed, "retrain"))
    chain = Chain(
        identity,
        parameters=stack.parameters,
        loss=lambda inputs, targets: summed_loss(stack(inputs), targets),
        batches=batches,
        prior=prior.bind(
            stack.layout, stack.parameters, sizes=members[0].origin.group_sizes, batch_dims=1
        ),
        sampler=SGLD(
            stack.parameters.values(),
            settings.schedule(0),
            num_data=batches.num_data,
            temperature=0.0,
        ),
        schedule=settings.schedule,
        guessing=len(members) * math.log(stack.layout.outputs.size),
        masks=stack.masks,
        clip=settings.clip,
        batch_dims=1,
        divergence=settings.divergence,
        observer=observer,
    )
    if resume is not None:
        chain.resume(resume)
    total = settings.epochs * batches.steps
    observer.started("retrain", 0, chain.step, total)
    while not chain.run(total):
        pass  # thrown back by a divergence, which the observer was told
    observer.finished("retrain", chain.state)
    stack.write_back()
    for member in members:
        member.eval()


def summed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum over members of each one's mean cross-entropy, of logits `(members, batch, classes)`."""
    members, batch, _ = logits.shape
    total = F.cross_entropy(logits.transpose(1, 2), targets.expand(members, batch), reduction="sum")
    return total / batch
