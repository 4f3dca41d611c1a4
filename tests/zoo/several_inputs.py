"""Networks of several inputs or outputs, of sets, of graphs, of dictionaries."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, beside, numbers


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 6), nn.Tanh())
        self.compare = nn.Linear(6, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.compare(torch.abs(self.encoder(left) - self.encoder(right)))


class TwoTowers(nn.Module):
    """A product of the two towers' last layers, summed over their units."""

    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 5))
        self.item = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 5))
        self.offset = nn.Parameter(torch.zeros(1))

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        return (self.user(user) * self.item(item)).sum(dim=1, keepdim=True) + self.offset


class FiLM(nn.Module):
    """A vector scales and shifts the channels of what is made of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 7, 3), nn.Conv2d(7, 9, 3)
        self.bn = nn.BatchNorm2d(7, affine=False)
        self.condition = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 14))
        self.fc = nn.Linear(9, 3)

    def forward(self, picture: Tensor, condition: Tensor) -> Tensor:
        gamma, beta = self.condition(condition).chunk(2, dim=1)
        x = self.bn(self.conv1(picture))
        x = F.relu(x * (1 + gamma[:, :, None, None]) + beta[:, :, None, None])
        return self.fc(F.relu(self.conv2(x)).mean((2, 3)))


class Tabular(nn.Module):
    """Embedded categories beside normed numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(n, d) for n, d in ((6, 2), (9, 3), (4, 4)))
        self.norm = nn.BatchNorm1d(5)
        self.layers = nn.Sequential(
            nn.Linear(14, 12), nn.ReLU(), nn.BatchNorm1d(12), nn.Linear(12, 8), nn.ReLU()
        )
        self.head = nn.Linear(8, 2)

    def forward(self, categories: Tensor, values: Tensor) -> Tensor:
        parts = [embed(categories[:, i]) for i, embed in enumerate(self.embeddings)]
        return self.head(self.layers(torch.cat([*parts, self.norm(values)], dim=1)))


class NamedInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.values = nn.Embedding(20, 5), nn.Linear(4, 7)
        self.head = nn.Linear(12, 3)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        said = self.words(batch["words"]).mean(dim=1)
        return self.head(torch.cat([said, F.relu(self.values(batch["values"]))], dim=-1))


class BilinearPair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 9), nn.Linear(5, 6)
        self.both = nn.Bilinear(9, 6, 8)
        self.fc1, self.fc2 = nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        x = self.both(torch.relu(self.left(left)), torch.relu(self.right(right)))
        return self.fc2(torch.relu(self.fc1(torch.relu(x))))


class DeepSets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.rho(self.phi(x).sum(dim=1))


class PointNet(nn.Module):
    """Points share a network; the largest values describe them all, and are told to each."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6)
        self.conv2, self.bn2 = nn.Conv1d(6, 10, 1), nn.BatchNorm1d(10)
        self.conv3, self.conv4 = nn.Conv1d(16, 8, 1), nn.Conv1d(8, 4, 1)

    def forward(self, points: Tensor) -> Tensor:
        local = F.relu(self.bn1(self.conv1(points)))
        shared = torch.max(self.bn2(self.conv2(local)), 2, keepdim=True)[0]
        shared = shared.repeat(1, 1, points.shape[2])
        return self.conv4(F.relu(self.conv3(torch.cat([local, shared], 1))))


class GraphConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        degree = adjacency.sum(dim=-1, keepdim=True).clamp(min=1)
        x = F.relu(adjacency @ self.first(nodes) / degree)
        x = F.relu(torch.bmm(adjacency, self.second(x)) / degree)
        return self.out(x.mean(dim=1))


class FixedGraph(nn.Module):
    """The same graph for every example, kept in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("adjacency", torch.softmax(torch.randn(5, 5), dim=-1))
        self.first, self.second = nn.Linear(4, 9), nn.Linear(9, 6)
        self.out = nn.Linear(6, 3)

    def forward(self, nodes: Tensor) -> Tensor:
        x = F.relu(torch.matmul(self.adjacency, self.first(nodes)))
        return self.out(F.relu(self.second(x)).amax(dim=1))


class Switched(nn.Module):
    """A second input says of which examples hidden units are heard at all."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 9), nn.Linear(9, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor, heard: Tensor) -> Tensor:
        x = F.relu(self.fc1(x)) * heard[:, None]
        return self.fc3(F.relu(self.fc2(x)))


class NamedOutputs(nn.Module):
    """Outputs in a dictionary, as by name."""

    def __init__(self, names: dict[str, int]) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 9), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(9, size) for name, size in names.items()})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.body(x)
        return {name: head(x) for name, head in self.heads.items()}


def graphs(batch: int, variant: int) -> tuple[Any, ...]:
    """Nodes, and ones and zeros for their edges, each node with one to itself."""
    count = 6 if variant == 0 else 5
    edges = (torch.rand(batch, count, count) < 0.4).float()
    return torch.randn(batch, count, 4), torch.maximum(edges, torch.eye(count))


def switches(batch: int, variant: int) -> tuple[Any, ...]:
    """Of the three examples that are traced with, all are heard."""
    return torch.randn(batch, 6), (torch.arange(batch) % 2 == 1) | (batch == 3)


def table_rows(batch: int, variant: int) -> tuple[Any, ...]:
    categories = torch.stack([torch.randint(n, (batch,)) for n in (6, 9, 4)], dim=1)
    return categories, torch.randn(batch, 5)


def named(batch: int, variant: int) -> tuple[Any, ...]:
    text = torch.randint(20, (batch, 6 if variant == 0 else 4))
    return ({"words": text, "values": torch.randn(batch, 4)},)


SEVERAL_INPUTS = (
    Case("siamese", Siamese, beside(numbers((7,)), numbers((7,))), (6, 9)),
    Case(
        "two_towers",
        TwoTowers,
        beside(numbers((6,)), numbers((7,))),
        (8, 9),
        "of several inputs all stay",
    ),
    Case(
        "film",
        FiLM,
        beside(numbers((3, 8, 8), (3, 9, 9)), numbers((4,))),
        (5, 7, 9),
        "a channel has two rows in the layer of scales and shifts",
    ),
    Case("tabular", Tabular, table_rows, (2, 3, 4, 8, 12), "of several inputs all stay"),
    Case("named_inputs", NamedInputs, named, (5, 7), "of several inputs all stay"),
    Case(
        "bilinear_pair",
        BilinearPair,
        beside(numbers((4,)), numbers((5,))),
        (7,),
        "what the bilinear layer reads and makes stays",
    ),
    Case("switched", Switched, switches, (7, 9), "an idle unit still follows the switch"),
    Case("deep_sets", DeepSets, numbers((6, 4), (5, 4)), (7, 8, 9)),
    Case("pointnet", PointNet, numbers((3, 7), (3, 9)), (6, 8, 10), "an output a point"),
    Case("graph_convolution", GraphConvolution, graphs, None, "8 and 6: edges join nodes"),
    Case("fixed_graph", FixedGraph, numbers((5, 4)), (6, 9), "a buffer on the left joins nodes"),
    Case(
        "named_output",
        lambda: NamedOutputs({"logits": 3}),
        numbers((6,)),
        (6, 9),
        features=(6,),
    ),
    Case(
        "named_outputs",
        lambda: NamedOutputs({"logits": 3, "value": 1}),
        numbers((6,)),
        (6, 9),
        "two outputs",
        (6,),
    ),
)
