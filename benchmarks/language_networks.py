"""The language models the benchmarks use: the paper's dense ones, and members of its structures."""

from __future__ import annotations

import torch
from torch import Tensor

from sparsemble.data import Vocabulary
from sparsemble.ensemble import LanguageEnsemble
from sparsemble.layouts import LanguageModel, language_layout
from sparsemble.members import Member, compact

WORDS = 10_000
MEDIUM, LARGE = 650, 1500
MEDIUM_ISS, LARGE_ISS = (158, 135, 182), (365, 311, 420)
SPARSITY = 0.9


def dense(units: int, *, dropout: float = 0.0) -> LanguageModel:
    """Two layers, an embedding as wide as they are."""
    torch.manual_seed(0)
    return LanguageModel(WORDS, units, [units, units], dropout=dropout, spread=0.05)


def iss_member(units: int, kept: tuple[int, int, int]) -> Member:
    """A member that keeps so many embedding columns and units of its layers."""
    network = dense(units)
    layout = language_layout(network, "iss")
    spaces = dict(zip(("embedding", "layer1", "layer2"), kept, strict=True))
    masks = {name: _some(network.get_parameter(name)) for name in layout.weights}
    for slot in layout.slots:
        if slot.parameter in masks and slot.space in spaces:
            gone = slot.indices(units)[spaces[slot.space] :].flatten()
            masks[slot.parameter].index_fill_(slot.dim, gone, False)
    return compact(network, layout, masks).eval()


def tied_member(units: int, kept: tuple[int, int, int]) -> Member:
    """A member with tied W groups and the FLOPs of `iss_member`, its rows and columns scattered."""
    network = dense(units)
    layout = language_layout(network, "tied")
    embedding, first, second = kept
    wanted = {
        "layers.0.weight_ih_l0": (4 * first, embedding),
        "layers.0.weight_hh_l0": (4 * first, first),
        "layers.1.weight_ih_l0": (4 * second, first),
        "layers.1.weight_hh_l0": (4 * second, second),
        "decoder.weight": (WORDS, second),
    }
    masks = {"embedding.weight": _some(network.embedding.weight)}
    for name, (rows, columns) in wanted.items():
        mask = torch.zeros(network.get_parameter(name).shape, dtype=torch.bool)
        # Both weights of a layer share their rows: one generator a layer, rows drawn first.
        shared = torch.Generator().manual_seed(len(name.partition("weight")[0]) + rows)
        kept_rows = torch.randperm(mask.shape[0], generator=shared)[:rows].sort().values
        kept_columns = torch.randperm(mask.shape[1])[:columns].sort().values
        mask[kept_rows.unsqueeze(1), kept_columns] = True
        masks[name] = mask
    return compact(network, layout, masks).eval()


def iss_ensemble(count: int) -> LanguageEnsemble:
    """Members of the large ISS structure."""
    words = Vocabulary(("<eos>", *(f"w{index}" for index in range(1, WORDS))))
    members = [iss_member(LARGE, LARGE_ISS) for _ in range(count)]
    return LanguageEnsemble(members, vocabulary=words)


def _some(weight: Tensor) -> Tensor:
    """Within what is kept a mask is not full either."""
    return torch.rand(weight.shape) < 0.7
