"""What every ensemble is: members, what they cost together, and how they are saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts.layers import without_addresses
from sparsemble.members import Member


@dataclass(frozen=True)
class EnsembleCost:
    """Totals over the members, and what one dense network costs beside them.

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


def _kind(member: Member) -> dict[str, object]:
    """What members of one ensemble have in common."""
    return {
        "layout": member.layout.name,
        "sizes": dict(member.origin.sizes),
        "precision": next(member.network.parameters()).dtype,
        "parameters": [name for name, _ in member.network.named_parameters()],
        "layers": [
            (name, _sizeless(module))
            for name, module in member.network.named_modules()
            if not isinstance(module, nn.Dropout)
        ],
    }


def _sizeless(module: nn.Module) -> str:
    """What a module is; one with parameters would say their sizes, too."""
    sized = any(True for _ in module.parameters())
    return type(module).__qualname__ if sized else without_addresses(str(module))


class BaseEnsemble(nn.Module):
    """Members that predict together; how they do is the subclass's."""

    def __init__(self, members: Sequence[Member]) -> None:
        super().__init__()
        if not members:
            raise InputError("an ensemble needs at least one member")
        if not all(isinstance(member, Member) for member in members):
            raise InputError("an ensemble is made of Members: Member.dense(network, layout), say")
        first = _kind(members[0])
        for number, member in enumerate(members):
            for what, value in _kind(member).items():
                if value != first[what]:
                    raise InputError(
                        f"member {number} differs from member 0 in its {what}: an ensemble is made "
                        "of networks of one kind, which only pruning may have made different"
                    )
        self.members = nn.ModuleList(members)

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Member:
        member = self.members[index]
        assert isinstance(member, Member)
        return member

    @property
    def cost(self) -> EnsembleCost:
        """Parameters, FLOPs and bytes by the paper's rules."""
        costs = [member.cost for member in self]
        dense = self[0].dense_cost
        parameters = sum(cost.parameters for cost in costs)
        biases = sum(
            tensor.numel()
            for member in self
            for name, tensor in member.network.named_parameters()
            if name not in member.masks
        )
        return EnsembleCost(
            members=len(self),
            parameters=parameters,
            flops=sum(cost.flops for cost in costs),
            bytes=4 * (parameters + biases),
            dense_parameters=dense.parameters,
            dense_flops=dense.flops,
        )

    def save(self, folder: str | Path) -> None:
        """Write the ensemble into `folder`: non-zeros only, checksummed, no pickle."""
        from sparsemble.ensemble.saving import save_ensemble

        save_ensemble(self, Path(folder))
