"""Structure and cost of every member beside the dense network (Tables 2 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparsemble.pages.layers import LayerUnits
from sparsemble.reports.opening import FinishedRun
from sparsemble.results.layers import layers_of
from sparsemble.structure import Cost
from sparsemble.structure.costs import BYTES_EACH


@dataclass(frozen=True)
class NetworkSize:
    """One network: units of each space, weights left, FLOPs of each multiplication."""

    units: tuple[int, ...]
    parameters: int
    flops: tuple[int, ...]

    @property
    def total_flops(self) -> int:
        """FLOPs of one example."""
        return sum(self.flops)


@dataclass(frozen=True)
class Sizes:
    """The members and the dense network; `bytes` counts weights and biases as 32-bit floats.

    `matrices` are named for people: a layer known only by its place among modules by its number.
    """

    spaces: tuple[str, ...]
    matrices: tuple[str, ...]
    dense: NetworkSize
    members: tuple[NetworkSize, ...]
    target_sparsity: float | None
    bytes: int
    dense_bytes: int
    layers: tuple[LayerUnits, ...] = ()

    def sparsity(self, member: NetworkSize) -> float:
        """The share of the dense network's weights that a member lacks."""
        return 1 - member.parameters / self.dense.parameters


def member_sizes(run: FinishedRun) -> Sizes:
    """What the members and the dense network cost."""
    dense = run.ensemble[0].dense_cost
    names = tuple(dense.shapes)
    how = run.recipe.prune
    return Sizes(
        tuple(run.layout.structure),
        layer_names(names),
        _size(dense, names),
        tuple(_size(member.cost, names) for member in run.ensemble),
        None if how is None else how.sparsity,
        run.ensemble.cost.bytes,
        BYTES_EACH * sum(p.numel() for p in run.blank.parameters()),
        tuple(layers_of(list(run.ensemble))),
    )


def layer_names(matrices: Sequence[str]) -> tuple[str, ...]:
    """What people call the multiplications of a network.

    >>> layer_names(["0", "2", "body.4", "head"])
    ('layer 1', 'layer 2', 'layer 3', 'head')
    """
    return tuple(
        f"layer {number}" if name.rpartition(".")[2].isdecimal() else name
        for number, name in enumerate(matrices, 1)
    )


def _size(cost: Cost, matrices: tuple[str, ...]) -> NetworkSize:
    return NetworkSize(
        cost.structure, cost.parameters, tuple(cost.matrices[name] for name in matrices)
    )
