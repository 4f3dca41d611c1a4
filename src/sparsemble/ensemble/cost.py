"""What an ensemble costs beside one dense network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sparsemble.members import Member
from sparsemble.structure.costs import BYTES_EACH


@dataclass(frozen=True)
class EnsembleCost:
    """Totals over the members, and what one dense network costs.

    `bytes` counts the stored non-zeros and biases as 32-bit floats.
    """

    members: int
    parameters: int
    flops: int
    bytes: int
    dense_parameters: int
    dense_flops: int

    @property
    def parameters_ratio(self) -> float:
        """Parameters as a multiple of one dense network's."""
        return self.parameters / self.dense_parameters

    @property
    def flops_ratio(self) -> float:
        """FLOPs as a multiple of one dense network's."""
        return self.flops / self.dense_flops


def ensemble_cost(members: Iterable[Member]) -> EnsembleCost:
    """Parameters, FLOPs and bytes by the paper's rules."""
    members = list(members)
    costs = [member.cost for member in members]
    dense = members[0].dense_cost
    parameters = sum(cost.parameters for cost in costs)
    biases = sum(member.biases for member in members)
    return EnsembleCost(
        members=len(members),
        parameters=parameters,
        flops=sum(cost.flops for cost in costs),
        bytes=BYTES_EACH * (parameters + biases),
        dense_parameters=dense.parameters,
        dense_flops=dense.flops,
    )
