"""A pruned member in a loop of the user's: what was pruned stays zero, whatever moves the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

from sparsemble.loops.attached_prior import AttachedPrior
from sparsemble.loops.binding import Binding
from sparsemble.loops.hooks import after_step, unwrapped
from sparsemble.members import Member
from sparsemble.priors import Prior


@contextmanager
def retraining(
    member: Member, optimizer: Optimizer, prior: Prior | None = None
) -> Iterator[Member]:
    """A member in training mode, in which pruned weights stay zero; afterwards it can predict.

    Their gradients are zero, so that they do not count where gradients are clipped, and after
    every step they are set to zero, so that neither momentum nor noise brings them back.

    Args:
        member: Of an ensemble; it is changed in place.
        optimizer: Of its parameters, any.
        prior: On its weights, with groups as large as they were before pruning.
    """
    optimizer = unwrapped(optimizer)
    binding = Binding(member.network, "the optimiser")
    # What is frozen does not move.
    learning = {name: own for name, own in member.masks.items() if name in binding.parameters}
    binding.check_moved_by(optimizer, learning)
    weights = [binding.parameters[name] for name in learning]
    masks = [mask.to(own) for mask, own in zip(learning.values(), weights, strict=True)]

    def mask_weights() -> None:
        binding.check()
        torch._foreach_mul_(weights, masks)

    with ExitStack() as attached:
        for weight, mask in zip(weights, masks, strict=True):
            hook = weight.register_post_accumulate_grad_hook(_masking(mask))
            attached.callback(hook.remove)
        attached.callback(after_step(optimizer, mask_weights).remove)
        if prior is not None:
            sizes = member.origin.group_sizes
            own = AttachedPrior(prior, member.network, member.layout, optimizer, sizes)
            attached.callback(own.remove)
        member.train()
        try:
            yield member
        finally:
            member.eval()


def _masking(mask: Tensor) -> Callable[[Tensor], None]:
    def hook(parameter: Tensor) -> None:
        if parameter.grad is not None:
            parameter.grad.mul_(mask)

    return hook
