"""The test networks traced, each once a process, and their random maskings in double precision.

The oracle is always the user's own module with zeros where weights have gone.
"""

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sparsemble.members import Member, compact, filled, tensors_of
from sparsemble.structure import Layout, Role
from sparsemble.tracing import Traced, describe
from zoo.cases import Case

KINDS = ("weights", "units", "both")
"""Which of a network's weights are taken away: single ones, all that units own, or both."""
RATES = (0.2, 0.6, 0.95)
"""How many of them."""
EQUAL = 1e-10
"""How far two ways to compute the same may lie apart in double precision."""


@dataclass(frozen=True)
class Masking:
    """A network without some weights: as its user would have it, and made smaller."""

    network: nn.Module
    member: Member
    masks: Mapping[str, Tensor]

    def difference(self, inputs: tuple[Any, ...]) -> float:
        """By how much their outputs differ, relative to the largest if that is more than 1."""
        with torch.no_grad():
            return difference(self.network(*inputs), self.member(*inputs))


@functools.cache
def traced(case: Case) -> tuple[nn.Module, Traced]:
    """A test network with fresh weights, and what a trace says of it; leave both as they are."""
    with seeded(1):
        network = case.make()
        return network, describe(network, *case.inputs(3, 0))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch's own generator begin anew, and go on afterwards as if nothing had been."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def removable(layout: Layout) -> tuple[int, ...]:
    """The sizes of the spaces whose units may go, sorted."""
    return tuple(sorted(space.size for space in layout.spaces if space.kind.may_go))


def outputs_of(result: Any) -> list[Tensor]:
    """All tensors that a network returns."""
    return pytree.tree_leaves(result)


def difference(wanted: Any, found: Any) -> float:
    """The largest difference of outputs of one form, relative to the largest if above 1."""
    worst = 0.0
    assert pytree.tree_structure(wanted) == pytree.tree_structure(found)
    for own, other in zip(outputs_of(wanted), outputs_of(found), strict=True):
        assert own.shape == other.shape
        assert own.dtype == other.dtype
        assert bool(own.isfinite().all())
        worst = max(worst, float((own - other).abs().max()) / max(1.0, float(own.abs().max())))
    return worst


def random_masking(
    network: nn.Module, found: Traced, kind: str, rate: float, *, seed: int = 0
) -> Masking:
    """Take weights away at random; all that is no weight gets random numbers as well.

    Of units that lose what makes them some lose their biases, too; of recurrent ones some lose only
    what writes their state.
    """
    with seeded(seed):
        own = copy.deepcopy(network).double().eval()
        tensors = tensors_of(own)
        _shake(found.layout, tensors)
        masks = _masks(found.layout, tensors, kind, rate)
        with torch.no_grad():
            for name, mask in masks.items():
                tensors[name].mul_(mask)
    program = filled(found.program, in_double(found.program) | tensors).eval()
    member = compact(program, found.layout, masks).eval()
    return Masking(own, member, masks)


def in_double(network: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, what is floating in them in double precision."""
    return {
        name: tensor.detach().double() if tensor.is_floating_point() else tensor
        for name, tensor in tensors_of(network).items()
    }


@torch.no_grad()
def _shake(layout: Layout, tensors: Mapping[str, Tensor]) -> None:
    """New biases, scales, statistics and whatever else is no weight."""
    for name, tensor in tensors.items():
        if name.endswith("running_var"):
            tensor.copy_(torch.rand_like(tensor) + 0.5)
        elif name.endswith("running_mean") or (
            isinstance(tensor, nn.Parameter) and name not in layout.weights
        ):
            tensor.add_(0.2 + 0.5 * torch.randn_like(tensor))


@torch.no_grad()
def _masks(
    layout: Layout, tensors: Mapping[str, Tensor], kind: str, rate: float
) -> dict[str, Tensor]:
    masks = {n: torch.ones(tensors[n].shape, dtype=torch.bool) for n in layout.weights}
    if kind in ("weights", "both"):
        for mask in masks.values():
            mask &= torch.rand(mask.shape) > rate
    if kind in ("units", "both"):
        for space in layout.spaces:
            if not space.kind.may_go:
                continue
            shares = (1, 0.4, 0.4)  # most units that say a constant are still read
            idle, unread, silent = (torch.rand(space.size) < share * rate for share in shares)
            without_bias = idle & (torch.rand(space.size) < 0.3)
            for slot in (slot for slot in layout.slots if slot.space == space.name):
                owned = slot.indices(space.size)
                if layout.is_weight(slot):
                    gone = idle if slot.role is Role.PRODUCER else unread
                    masks[slot.parameter].index_fill_(slot.dim, owned[gone].flatten(), False)
                elif isinstance(tensors[slot.parameter], nn.Parameter):
                    where = owned[without_bias].flatten()
                    tensors[slot.parameter].index_fill_(slot.dim, where, 0)
            for slot in space.silencers:
                where = slot.indices(space.size)[silent].flatten()
                slot.part.of(tensors[slot.parameter]).index_fill_(slot.dim, where, 0)
                if slot.parameter in masks:
                    slot.part.of(masks[slot.parameter]).index_fill_(slot.dim, where, False)
    return masks
