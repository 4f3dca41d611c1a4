"""Networks whose weights are computed, frozen, unused, or multiplied in unusual ways."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from zoo.cases import Case, numbers, words


class OwnParameters(nn.Module):
    """No layers, only parameters and products, written as x W + b."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(8, 11) / 3), nn.Parameter(torch.zeros(11))
        self.w2, self.b2 = nn.Parameter(torch.randn(11, 6) / 3), nn.Parameter(torch.zeros(6))
        self.w3 = nn.Parameter(torch.randn(3, 6) / 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(x @ self.w1 + self.b1)
        x = torch.tanh(torch.addmm(self.b2, x, self.w2))
        return x.mm(self.w3.t())


class EinsumLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(9, 5) / 2)
        self.b = nn.Parameter(torch.randn(9, 7) / 3)
        self.fc = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(torch.einsum("bi,oi->bo", x, self.a))
        return self.fc(F.relu(torch.einsum("bi,ij->bj", x, self.b)))


class WeightNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = weight_norm(nn.Linear(6, 9)), nn.Linear(9, 7)
        self.fc3 = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class LowRankLayer(nn.Module):
    """A frozen layer and a learned correction of low rank beside it."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.base.requires_grad_(False)
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 2.0 * self.up(self.down(x))


class MergedLowRank(nn.Module):
    """The correction is added to the weight itself."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(9, 6) / 3)
        self.a, self.b = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(9, 2) / 3)
        self.fc1, self.fc2 = nn.Linear(9, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.linear(x, self.weight + 0.5 * (self.b @ self.a)))
        return self.fc2(F.relu(self.fc1(x)))


class CosineClassifier(nn.Module):
    """Angles to learned directions, scaled by a learned temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 9), nn.Linear(9, 7)
        self.directions = nn.Parameter(torch.randn(4, 7))
        self.log_scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(self.fc2(F.relu(self.fc1(x))), dim=-1)
        return F.linear(x, F.normalize(self.directions, dim=1)) * self.log_scale.exp()


class UnusedLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 9), nn.Linear(9, 3)
        self.forgotten = nn.Linear(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)))


class FrozenBackbone(nn.Module):
    """Features of a network that is no longer learned, computed without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 8), nn.ReLU())
        self.backbone.requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


class LearnedScales(nn.Module):
    """A scale and a shift a unit, and one of each for all units."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 9), nn.Linear(9, 3)
        self.scale, self.shift = nn.Parameter(torch.ones(9)), nn.Parameter(torch.zeros(1, 9))
        self.alpha, self.beta = nn.Parameter(torch.tensor(0.8)), nn.Parameter(torch.tensor([0.1]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x) * self.scale + self.shift
        return self.fc2(F.relu(self.alpha * x + self.beta))


class BagOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 6, mode="mean")
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, text: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(self.bag(text))))


class FactorizationMachine(nn.Module):
    """Pairs of embedded words interact by their products; a deep part reads them side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.embedding = nn.Embedding(20, 1), nn.Embedding(20, 5)
        self.deep = nn.Sequential(nn.Linear(4 * 5, 9), nn.ReLU(), nn.Linear(9, 1))

    def forward(self, fields: Tensor) -> Tensor:
        vectors = self.embedding(fields)
        pairs = vectors.sum(dim=1).square() - vectors.square().sum(dim=1)
        return (
            self.linear(fields).sum(dim=1)
            + 0.5 * pairs.sum(dim=1, keepdim=True)
            + self.deep(vectors.view(-1, 4 * 5))
        )


class RunningTotal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix, self.out = nn.Linear(4, 8), nn.Linear(8, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        total = torch.cumsum(F.relu(self.embed(x)), dim=1)
        return self.out(F.relu(self.mix(total)).mean(dim=1))


FLAT = numbers((6,))
BASES = tuple(f"{i}.base.{leaf}" for i in (0, 2) for leaf in ("weight", "bias"))
BACKBONE = tuple(f"backbone.{i}.{leaf}" for i in (0, 2) for leaf in ("weight", "bias"))
ODD_WEIGHTS = (
    Case("own_parameters", OwnParameters, numbers((8,)), (6, 8, 11), features=(8,)),
    Case("einsum_layers", EinsumLayers, numbers((5,)), (5, 7, 9), features=(5,)),
    Case("weight_norm", WeightNorm, FLAT, (7,), "weights that are computed pin what they touch"),
    Case(
        "low_rank",
        lambda: nn.Sequential(LowRankLayer(6, 9, 2), nn.ReLU(), LowRankLayer(9, 4, 3)),
        FLAT,
        (2, 3),
        "what frozen weights read stays: zeros in them cannot be learned",
        without_gradient=BASES,
    ),
    Case("low_rank_merged", MergedLowRank, FLAT, (7,)),
    Case("cosine_classifier", CosineClassifier, FLAT, (6, 9), features=(6,)),
    Case(
        "unused_layer",
        UnusedLayer,
        FLAT,
        (6, 9),
        features=(6,),
        without_gradient=("forgotten.weight", "forgotten.bias"),
    ),
    Case(
        "frozen_backbone",
        FrozenBackbone,
        FLAT,
        (7, 8),
        "what frozen weights read stays; what they make may go",
        without_gradient=BACKBONE,
    ),
    Case("learned_scales", LearnedScales, FLAT, (6, 9), features=(6,)),
    Case("bag_of_words", BagOfWords, words(20, 5, 6), None, "8, and 6 with a rule for bags"),
    Case("factorization_machine", FactorizationMachine, words(20, 4), (9,)),
    Case("running_total", RunningTotal, numbers((6, 4), (5, 4)), (6, 8)),
)
