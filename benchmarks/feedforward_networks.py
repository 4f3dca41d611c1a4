"""The networks the benchmarks use: the paper's dense one, and members of its 96 % structure."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.networks import feedforward
from sparsemble.tasks import Classification

SIZES = (784, 300, 100, 10)
STRUCTURE = (364, 82, 22, 10)
NON_ZEROS = 10_648


def dense_network(scale: int = 1) -> nn.Sequential:
    """FNN-784-300-100-10, or a wider one."""
    return feedforward(784, [300 * scale, 100 * scale], 10)


def sparse_member(seed: int) -> Member:
    """A member of about the structure and sparsity of the paper's Table 2.

    Units are kept as samples of one chain keep them: most are the same in all members. Eighteen
    members then read about 1.1 times as many inputs together as one of them does alone, as
    measured on MNIST.
    """
    torch.manual_seed(seed)
    network = dense_network()
    own = torch.Generator().manual_seed(seed)
    shared = torch.Generator().manual_seed(0)
    kept = []
    for size, wanted in zip(SIZES, STRUCTURE, strict=True):
        usefulness = torch.randperm(size, generator=shared) + 12 * torch.randn(size, generator=own)
        kept.append(usefulness.topk(wanted).indices.sort().values)
    area = sum(len(a) * len(b) for a, b in itertools.pairwise(kept))
    masks = {}
    for layer, (inputs, outputs) in zip(("0", "2", "4"), itertools.pairwise(kept), strict=True):
        shape = network.get_parameter(f"{layer}.weight").shape
        block = torch.rand(len(outputs), len(inputs), generator=own) < NON_ZEROS / area
        block[torch.arange(len(outputs)), torch.arange(len(outputs)) % len(inputs)] = True
        block[torch.arange(len(inputs)) % len(outputs), torch.arange(len(inputs))] = True
        mask = torch.zeros(shape, dtype=torch.bool)
        mask[outputs.unsqueeze(1), inputs.unsqueeze(0)] = block
        masks[f"{layer}.weight"] = mask
    return compact(network, layout_of(network), masks).eval()


def sparse_ensemble(count: int = 18) -> Ensemble:
    """Members of the 96 % structure."""
    return Ensemble([sparse_member(seed) for seed in range(count)], Classification())
