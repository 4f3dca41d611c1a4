"""A training loop as users write it, and small data for it."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from sparsemble import Collector, Dataset, as_dataset, attach_prior, layout_of
from sparsemble.priors import GroupSparse
from sparsemble.samplers import SGLD

Batches = Iterable[tuple[Tensor, Tensor]]


def blobs(count: int = 96, *, seed: int = 0) -> Dataset:
    """Three classes of points in five dimensions, around their corners."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    points = 2 * F.one_hot(labels, 5) + 0.5 * torch.randn(count, 5, generator=generator)
    return as_dataset(points, labels)


def batches_of(data: Dataset, size: int = 16) -> list[tuple[Tensor, Tensor]]:
    return list(zip(data.scaled().split(size), data.targets.split(size), strict=True))


def small_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3))


def run(network: nn.Module, optimizer: Optimizer, batches: Batches) -> None:
    """The loop of everybody's."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        F.cross_entropy(network(inputs), targets).backward()
        optimizer.step()


def sampled(network: nn.Module, batches: Batches, **collected: int) -> Collector:
    """A collector after the loop, with the usual prior."""
    sampler = SGLD(network.parameters(), lr=0.2, num_data=96, temperature=0.01)
    attach_prior(GroupSparse(penalty=1e-3), network, layout_of(network), sampler)
    collector = Collector(network, layout_of(network), sampler, **collected)
    run(network, sampler, batches)
    return collector
