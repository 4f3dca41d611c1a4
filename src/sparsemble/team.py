"""Processes that compute one chain together, each on its part of every batch.

`torchrun` starts them; they find each other by `torch.distributed`, over gloo between processors
and nccl between GPUs. Gradients are summed in the order of ranks, whatever the timing: the same
number of processes gives the same bits. Everything else is computed by each of them alike, and only
the first one writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from sparsemble.errors import InputError

T = TypeVar("T")


class _Stop(Protocol):
    @property
    def stop_requested(self) -> bool: ...


class Team:
    """The processes of a `torchrun`, seen by one of them.

    To whoever asks whether to stop it says what all have agreed on at the last step.
    """

    def __init__(self) -> None:
        import torch.distributed as distributed

        self._distributed = distributed
        if not distributed.is_initialized():
            gpus = torch.cuda.is_available()
            distributed.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo")
        self.rank = distributed.get_rank()
        self.size = distributed.get_world_size()
        self.stop_requested = False
        self._stop: _Stop | None = None

    def watching(self, stop: _Stop) -> Team:
        """Let every process stop once one of them is asked to."""
        self._stop = stop
        return self

    def bounds(self, count: int) -> tuple[int, int]:
        """Which of so many examples are this process's: from the first, up to the second."""
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    @torch.no_grad()
    def average(self, tensors: Sequence[Tensor], share: float) -> None:
        """Replace tensors by their mean over all processes, of which each has its share."""
        asked = torch.tensor([float(self._stop is not None and self._stop.stop_requested)])
        wide = any(tensor.dtype == torch.float64 for tensor in tensors)
        kind = torch.float64 if wide else torch.float32
        whole = [tensor.reshape(-1).to(kind) for tensor in tensors]
        # No share is nothing, also of what is not finite.
        own = [tensor.mul(share) if share else torch.zeros_like(tensor) for tensor in whole]
        flat = torch.cat([*own, asked.to(own[0])])
        summed = self._summed(flat)
        self.stop_requested = self.stop_requested or bool(summed[-1] > 0)
        parts = summed[:-1].split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))

    def _summed(self, flat: Tensor) -> Tensor:
        """The sum over processes: each adds up one slice, in the order of ranks, for all."""
        each = -(-flat.numel() // self.size)
        padded = torch.nn.functional.pad(flat, (0, each * self.size - flat.numel()))
        received = torch.empty_like(padded)
        self._distributed.all_to_all_single(received, padded)
        slices = received.view(self.size, each)
        total = slices[0].clone()
        for part in slices[1:]:
            total += part
        gathered = [torch.empty_like(total) for _ in range(self.size)]
        self._distributed.all_gather(gathered, total)
        return torch.cat(gathered)[: flat.numel()]

    def gathered(self, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Everybody's tensors, which have the same names; in the order of ranks."""
        found: list[Any] = [None] * self.size
        self._distributed.all_gather_object(found, dict(tensors))
        return found

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Refuse to compute together what is not the same thing."""
        found: list[Any] = [None] * self.size
        self._distributed.all_gather_object(found, dict(facts))
        for rank, other in enumerate(found):
            changed = [name for name in facts if other[name] != found[0][name]]
            if changed:
                hint = "seed before making the network, or give learn() a function that makes one"
                raise InputError(
                    f"process {rank} of torchrun has another {' and another '.join(changed)} than "
                    f"the first{'; ' + hint if 'initial weights' in changed else ''}"
                )

    def device(self, wanted: torch.device) -> torch.device:
        """Where this process computes: each has a GPU of its own, if it has any."""
        if wanted.type == "cpu" or wanted.index is not None:
            return wanted
        return torch.device(wanted.type, int(os.environ.get("LOCAL_RANK", "0")))

    def same(self, value: T) -> T:
        """What the first process says."""
        said: list[Any] = [value if self.rank == 0 else None]
        self._distributed.broadcast_object_list(said, src=0)
        first: T = said[0]
        return first


def agreed(value: T, team: Team | None) -> T:
    """What the first process of a team says; of none, what this one does."""
    return value if team is None else team.same(value)


def is_alone() -> bool:
    """Is this process part of no team?"""
    return int(os.environ.get("WORLD_SIZE", "1")) <= 1


@cache
def team_here() -> Team | None:
    """The team that `torchrun` made this process part of, if it did."""
    return None if is_alone() else Team()


def is_first() -> bool:
    """Is this the process that writes, and talks to the user?"""
    return is_alone() or os.environ.get("RANK", "0") == "0"
