"""The networks the benchmarks use: dense ones, and members of structures that were learned."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import nn

from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.nets import feedforward
from sparsemble.tasks import Classification


@dataclass(frozen=True)
class Structure:
    """What members keep of a dense network: units of every layer, and weights."""

    sizes: tuple[int, ...]
    kept: tuple[int, ...]
    weights: int

    def dense(self) -> nn.Sequential:
        """The network before pruning."""
        inputs, *hidden, outputs = self.sizes
        return feedforward(inputs, hidden, outputs)


MNIST_96 = Structure((784, 300, 100, 10), (364, 82, 22, 10), 10_648)
"""The paper's Table 2."""
MNIST_HALF = Structure((784, 300, 100, 10), (408, 266, 92, 10), 93_000)
"""Half the FLOPs, as the recipe `mnist-budget` leaves it."""
DIGITS = Structure((64, 256, 128, 10), (64, 164, 92, 10), 7_600)
"""One global threshold, as the recipe `digits` leaves it."""


def dense_network(scale: int = 1) -> nn.Sequential:
    """FNN-784-300-100-10, or a wider one."""
    return feedforward(784, [300 * scale, 100 * scale], 10)


def sparse_member(seed: int, structure: Structure = MNIST_96) -> Member:
    """A member of about this structure and sparsity.

    Units are kept as samples of one chain keep them: most are the same in all members. Eighteen
    members then read about 1.1 times as many inputs together as one of them does alone, as
    measured on MNIST.
    """
    torch.manual_seed(seed)
    network = structure.dense()
    own = torch.Generator().manual_seed(seed)
    shared = torch.Generator().manual_seed(0)
    kept = []
    for size, wanted in zip(structure.sizes, structure.kept, strict=True):
        usefulness = torch.randperm(size, generator=shared) + 12 * torch.randn(size, generator=own)
        kept.append(usefulness.topk(wanted).indices.sort().values)
    area = sum(len(a) * len(b) for a, b in itertools.pairwise(kept))
    masks = {}
    for layer, (inputs, outputs) in zip(("0", "2", "4"), itertools.pairwise(kept), strict=True):
        shape = network.get_parameter(f"{layer}.weight").shape
        block = torch.rand(len(outputs), len(inputs), generator=own) < structure.weights / area
        block[torch.arange(len(outputs)), torch.arange(len(outputs)) % len(inputs)] = True
        block[torch.arange(len(inputs)) % len(outputs), torch.arange(len(inputs))] = True
        mask = torch.zeros(shape, dtype=torch.bool)
        mask[outputs.unsqueeze(1), inputs.unsqueeze(0)] = block
        masks[f"{layer}.weight"] = mask
    return compact(network, layout_of(network), masks).eval()


def sparse_ensemble(count: int = 18, structure: Structure = MNIST_96) -> Ensemble:
    """Members of one structure."""
    return Ensemble([sparse_member(seed, structure) for seed in range(count)], Classification())
