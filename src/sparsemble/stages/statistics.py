"""Statistics of normalisations, estimated anew by one pass over the training data.

The mean of several networks and a pruned network have other activations than those that running
statistics were taken of: without new ones they predict badly, however good their weights are.
"""

from __future__ import annotations

import torch
from torch import nn

from sparsemble.data import Batches
from sparsemble.members import Member
from sparsemble.programs import Program
from sparsemble.tasks import Task


def has_statistics(network: nn.Module) -> bool:
    """Does a network normalise by statistics of its data?"""
    return isinstance(network, Program) and network.has_statistics_


@torch.no_grad()
def re_estimate(member: Member, task: Task, batches: Batches) -> Member:
    """Estimate the statistics of a member's normalisations, in place, if it has any.

    Args:
        member: Changed, and returned.
        task: Says how it is called.
        batches: The training data.
    """
    program = member.network
    if isinstance(program, Program) and has_statistics(program):
        forward = task.forward(member)
        device = next(program.parameters()).device
        forward.reset()
        with program.estimating_() as begin:
            for number, (inputs, _) in enumerate(batches.epoch(0)):
                begin(number)
                forward(inputs.to(device))
    return member
