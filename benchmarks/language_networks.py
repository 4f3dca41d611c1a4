"""The language models the benchmarks use: the paper's dense ones, and members of its structures."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.nets import LanguageModel
from sparsemble.tasks import LanguageModelling

WORDS = 10_000
SMALL, MEDIUM, LARGE = 200, 650, 1500
MEDIUM_ISS, LARGE_ISS = (158, 135, 182), (365, 311, 420)


def dense(units: int, *, dropout: float = 0.0) -> LanguageModel:
    """Two layers, an embedding as wide as they are."""
    torch.manual_seed(0)
    network = LanguageModel(WORDS, units, [units, units], dropout=dropout, init_range=0.05)
    for layer in network.lstms:
        nn.init.uniform_(layer.get_parameter("bias_ih_l0"), -0.05, 0.05)  # as if trained
    return network


def iss_member(units: int, kept: tuple[int, int, int], *, dropout: float = 0.0) -> Member:
    """A member that keeps so many embedding columns and units of its layers."""
    network = dense(units, dropout=dropout)
    layout = layout_of(network, "iss")
    spaces = dict(zip(("embedding", "layer1", "layer2"), kept, strict=True))
    masks = {name: _some(network.get_parameter(name)) for name in layout.weights}
    for slot in layout.slots:
        if slot.parameter in masks and slot.space in spaces:
            gone = slot.indices(units)[spaces[slot.space] :].flatten()
            masks[slot.parameter].index_fill_(slot.dim, gone, False)
    return compact(network, layout, masks).eval()


def tied_member(units: int, kept: tuple[int, int, int]) -> Member:
    """A member with tied W groups and about the FLOPs of `iss_member`.

    What a layer's own gates read and what the layer above reads are two sets of its units that
    overlap by half, and only some gate dimensions of these units have weights: no list can go.
    """
    network = dense(units)
    layout = layout_of(network, "tied")
    embedding, first, second = kept
    masks = {"embedding.weight": _some(network.embedding.weight)}
    below = torch.randperm(units)[:embedding]
    for layer, count in ((0, first), (1, second)):
        order = torch.randperm(units)
        recurrent, above = order[:count], order[count // 2 : count // 2 + count]
        used = order[: count // 2 + count]
        gates = torch.cat([used + gate * units for gate in range(4)])
        rows = gates[torch.randperm(len(gates))[: 4 * count]]
        for leaf, columns in (("weight_ih", below), ("weight_hh", recurrent)):
            name = f"layers.{layer}.{leaf}_l0"
            masks[name] = torch.zeros(network.get_parameter(name).shape, dtype=torch.bool)
            masks[name][rows.unsqueeze(1), columns] = True
        below = above
    masks["decoder.weight"] = torch.zeros(WORDS, units, dtype=torch.bool)
    masks["decoder.weight"][:, below] = True
    return compact(network, layout, masks).eval()


def iss_ensemble(count: int) -> Ensemble:
    """Members of the large ISS structure."""
    words = ("<eos>", *(f"w{index}" for index in range(1, WORDS)))
    members = [iss_member(LARGE, LARGE_ISS) for _ in range(count)]
    return Ensemble(members, LanguageModelling(words=words))


def _some(weight: Tensor) -> Tensor:
    """Within what is kept a mask is not full either."""
    return torch.rand(weight.shape) < 0.7
