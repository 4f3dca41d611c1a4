"""Programs computed together: one padded program, mapped over the members by `torch.vmap`.

That saves calls, not arithmetic: it is quicker for few examples of small networks, and slower
otherwise. Only predictions are made so; whoever calls it finds out whether it pays.

A padded unit is made by zeros and read by zeros. A normalisation of one divides by a padded
variance, which is 1. An operation that is not finite at zero (a division by a scale, say) spoils
the outputs all the same: compare them once with the members' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from sparsemble.members.member import Member, selected
from sparsemble.members.padding import Padding
from sparsemble.programs import Blueprint, Held, Program
from sparsemble.programs.tensors import tensors_of


class ProgramStack:
    """The members' tensors, padded and stacked, and their joint predictions."""

    @staticmethod
    def fits(members: Sequence[Member]) -> bool:
        """Can such members be stacked? Recurrent operations have no batched form."""
        first = members[0].network
        return isinstance(first, Program) and not any(
            step.is_recurrent for step in first.blueprint_.evaluating.steps
        )

    def __init__(self, members: Sequence[Member]) -> None:
        first = members[0].network
        assert isinstance(first, Program), "members that do not fit"
        padding = Padding(members)
        variances = _variances(first.blueprint_)
        named = [tensors_of(member.network) for member in members]
        self._tensors = {
            name: padding.stacked(
                name, [own[name].detach() for own in named], 1 if name in variances else 0
            )
            for name in named[0]
        }
        whole = {name: stacked[0] for name, stacked in self._tensors.items()}
        self._program = Program(first.blueprint_, whole, padding.sizes).eval()
        self._reads = padding.partial_reads(next(iter(self._tensors.values())).device)

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> Tensor:
        """Outputs of every member without dropout, `(members, batch, …)`."""

        def one(tensors: Mapping[str, Tensor], batch: Tensor) -> Tensor:
            outputs: Tensor = functional_call(self._program, dict(tensors), (batch,))
            return outputs

        together = torch.vmap(one, in_dims=(0, None), randomness="different")
        read = inputs if self._reads is None else selected(inputs, *self._reads)
        with sdpa_kernel(SDPBackend.MATH):  # others have no batched form on every device
            outputs: Tensor = together(self._tensors, read)
        return outputs


def _variances(blueprint: Blueprint) -> set[str]:
    """The tensors that normalisations take as variances."""
    variances = (step.arguments[4] for step in blueprint.evaluating.steps if step.normalises)
    return {variance.name for variance in variances if isinstance(variance, Held)}
