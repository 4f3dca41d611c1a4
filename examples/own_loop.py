"""A training loop of one's own: what changes is the optimiser, and what hangs on it.

The same loop runs in both stages: on the whole network, which a sampler moves, and on every pruned
member, which Adam does. From the folder above: python examples/own_loop.py
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset

import sparsemble
from sparsemble.priors import GroupSparse
from sparsemble.samplers import SGLD
from sparsemble.stages import PruneSettings

PRIOR = GroupSparse(penalty=2e-4)
EPOCHS, BURN_IN, RETRAIN = 20, 8, 6


class Pictures(nn.Module):
    """Two convolutions, any network of yours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second, self.head = nn.Conv2d(16, 32, 3, padding=1), nn.Linear(32 * 16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the classes."""
        x = torch.relu(self.norm(self.first(x.view(-1, 1, 8, 8))))
        return self.head(F.max_pool2d(torch.relu(self.second(x)), 2).flatten(1))


def train(network: nn.Module, optimizer: Optimizer, loader: DataLoader, epochs: int) -> None:
    """The loop, as it was before."""
    network.train()
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(network(inputs), targets)
            loss.backward()
            optimizer.step()


def learn(data: sparsemble.Dataset) -> sparsemble.Ensemble:
    """An ensemble of the price of one network."""
    inputs = data.scaled()
    loader = DataLoader(TensorDataset(inputs, data.targets), batch_size=32, shuffle=True)
    network = Pictures()
    traced = sparsemble.describe(network, inputs[:2])

    sampler = SGLD(network.parameters(), lr=0.1, num_data=len(data), temperature=0.01)
    sparsemble.attach_prior(PRIOR, network, traced, sampler)
    steps = len(loader)
    collector = sparsemble.Collector(
        network, traced, sampler, burn_in=BURN_IN * steps, interval=(EPOCHS - BURN_IN) // 2 * steps
    )
    train(network, sampler, loader, EPOCHS)

    ensemble = sparsemble.assemble(collector, data, prune=PruneSettings(flops=1.0, parameters=0.7))
    for member in ensemble:
        optimizer = torch.optim.Adam(member.parameters(), lr=1e-3)
        with sparsemble.retraining(member, optimizer, PRIOR):
            train(member, optimizer, loader, RETRAIN)
    return ensemble


def main() -> None:
    """Learn the digits, and say how well."""
    torch.manual_seed(0)
    training, test = sparsemble.digits()
    ensemble = learn(training)
    print(ensemble.evaluate(test))
    print(f"{len(ensemble)} members, {ensemble.cost.flops_ratio:.2f}× the FLOPs of one network")


if __name__ == "__main__":
    main()
