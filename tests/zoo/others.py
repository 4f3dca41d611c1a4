"""Networks of linear layers that are given one vector: the many ways to write them."""

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers


def sequential_mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 3)
    )


class ListedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = [6, 11, 8, 3]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.activations = nn.ModuleDict({"inner": nn.ELU(), "last": nn.Identity()})

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            kind = "inner" if i + 1 < len(self.layers) else "last"
            x = self.activations[kind](layer(x))
        return x


class SharedLayer(nn.Module):
    """One layer used three times: what it reads is what it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.last = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.softplus(self.first(x))
        for _ in range(3):
            x = torch.sigmoid(self.again(x))
        return self.last(x)


class Highway(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(6, 8)
        self.plain = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.gate = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.project(x))
        for plain, gate in zip(self.plain, self.gate, strict=True):
            t = torch.sigmoid(gate(x))
            x = t * F.relu(plain(x)) + (1.0 - t) * x
        return self.fc(x)


class InputSkip(nn.Module):
    """The input is read again by the last layer, beside its squares."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(7, 9), nn.Linear(9 + 7 + 7, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.cat([F.relu(self.fc1(x)), x, x**2], dim=1))


class Mixture(nn.Module):
    """Experts of different sizes, each weighted by one number."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(7, n), nn.ReLU(), nn.Linear(n, 3)) for n in (8, 6, 5)
        )
        self.gate = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        weights = F.softmax(self.gate(x), dim=-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (weights.unsqueeze(-1) * outputs).sum(dim=1)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 3))
        self.decoder = nn.Sequential(nn.ReLU(), nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


class ResidualBlock(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(dim)
        self.linear1, self.linear2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear2(self.dropout(F.relu(self.linear1(self.norm(x)))))


def residual_mlp() -> nn.Sequential:
    blocks = [ResidualBlock(9, 12), ResidualBlock(9, 14)]
    return nn.Sequential(nn.Linear(6, 9), *blocks, nn.BatchNorm1d(9, affine=False), nn.Linear(9, 3))


def layer_norm_mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(6, 10), nn.LayerNorm(10), nn.GELU(), nn.Linear(10, 7), nn.SiLU(), nn.Linear(7, 3)
    )


class Maxout(nn.Module):
    """The largest of three: a reduction over what a layer made."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces, self.fc1, self.fc2 = nn.Linear(6, 8 * 3), nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pieces(x).view(-1, 8, 3).max(dim=-1).values
        return self.fc2(torch.relu(self.fc1(x)))


def glu_mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 18), nn.GLU(), nn.Linear(9, 14), nn.GLU(-1), nn.Linear(7, 3))


class Dropouts(nn.Module):
    """Several kinds of dropout, and noise, all of them only in training."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 9), nn.Linear(9, 8), nn.Linear(8, 3)
        self.alpha, self.feature = nn.AlphaDropout(0.1), nn.FeatureAlphaDropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x + 0.1 * torch.randn_like(x)
        x = self.alpha(F.selu(self.fc1(F.dropout(x, 0.1, self.training))))
        x = F.selu(self.fc2(x))
        x = self.feature(x.unsqueeze(-1)).squeeze(-1)
        return self.fc3(F.dropout1d(x.unsqueeze(-1), 0.1, training=self.training).squeeze(-1))


class SliceAssignment(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 5)
        self.fc1, self.fc2 = nn.Linear(9, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        o = x.new_zeros(x.shape[0], 9)
        o[:, :4] = F.relu(self.left(x))
        o[:, 4:] = torch.tanh(self.right(x))
        return self.fc2(F.relu(self.fc1(o)))


class Standardised(nn.Module):
    """Fixed means and scales of the inputs and of the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(6))
        self.register_buffer("std", torch.rand(6) + 0.5)
        self.register_buffer("scale", torch.rand(2) + 1)
        self.net = nn.Sequential(nn.Linear(6, 8), nn.LogSigmoid(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - self.mean) / self.std) * self.scale + 3.0


class FourierFeatures(nn.Module):
    """Random frequencies that are never learned."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.randn(3, 8))
        self.fc1, self.fc2 = nn.Linear(16, 11), nn.Linear(11, 2)

    def forward(self, x: Tensor) -> Tensor:
        phase = 2 * torch.pi * x @ self.frequencies
        return self.fc2(F.relu(self.fc1(torch.cat([phase.sin(), phase.cos()], dim=-1))))


class RadialBasis(nn.Module):
    """Distances to learned centres: nothing that a weight makes is read by a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(7, 4))
        self.log_width = nn.Parameter(torch.zeros(7))
        self.out = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        distance = (x.unsqueeze(1) - self.centres).pow(2).sum(-1)
        return self.out(torch.exp(-distance * self.log_width.exp()))


class InnerSoftmax(nn.Module):
    """Hidden units compete: each gets a share of what all of them have."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 9), nn.Linear(9, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.softmax(self.fc1(x), dim=-1))))


class CentredUnits(nn.Module):
    """Of every hidden unit the mean of all is subtracted."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 9), nn.Linear(9, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        return self.fc3(F.relu(self.fc2(F.relu(x - x.mean(-1, keepdim=True)))))


class PickedUnits(nn.Module):
    """Hidden units are picked by their numbers, all of them as it happens."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("picked", torch.arange(8))
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 8), nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))[:, self.picked])))


class SideGates(nn.Module):
    """Each of four numbers scales all hidden units; a layer reads the numbers themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.side = nn.Linear(6, 4), nn.Linear(4, 3)
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        gates = self.gates(x).sigmoid()
        scaled = F.relu(self.fc1(x))[:, None, :] * gates[:, :, None]
        return self.fc2(scaled.mean(dim=1)) + self.side(gates)


class AddedSpectrum(nn.Module):
    """Values of no unit, the inputs' Fourier transform, are added to hidden units."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(8, 8), nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x)) + torch.fft.fft(x, dim=-1).real
        return self.fc3(F.relu(self.fc2(x)))


class ReaderOfBoth(nn.Module):
    """One layer reads hidden units, and then values of no unit."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.both, self.fc2 = nn.Linear(8, 8), nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        said = self.both(F.relu(self.fc1(x))) + self.both(torch.fft.fft(x, dim=-1).real)
        return self.fc2(F.relu(said))


class SharedReader(nn.Module):
    """One layer reads two others: a unit has a value, and a constant, in each."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 9), nn.Linear(6, 9)
        self.shared, self.fc = nn.Linear(9, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.shared(torch.sigmoid(self.left(x))), self.shared(F.relu(self.right(x)))
        return self.fc(F.relu(left) - torch.tanh(right))


class SpectralSide(nn.Module):
    """One layer reads hidden units as they are, another one their Fourier transform."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 8), nn.Linear(8, 7), nn.Linear(7, 3)
        self.side = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x))
        return self.fc3(F.relu(self.fc2(x))) + self.side(torch.fft.fft(x, dim=-1).real)


class HiddenOutput(nn.Module):
    """What the last layer reads is an output, too."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 8), nn.Linear(8, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.tanh(self.fc2(F.relu(self.fc1(x))))
        return self.fc3(x), x


def vector_case(
    name: str,
    make: Callable[[], nn.Module],
    features: int,
    hidden: tuple[int, ...],
    note: str = "",
) -> Case:
    """A network of a flat input, every feature of which may go."""
    removable = tuple(sorted((features, *hidden)))
    return Case(name, make, numbers((features,)), removable, note, (features,))


OTHERS = (
    Case("mlp", sequential_mlp, numbers((3, 4)), (7, 9, 12), features=(12,)),
    vector_case("mlp_listed", ListedMLP, 6, (8, 11)),
    vector_case("shared_layer", SharedLayer, 5, (8,)),
    vector_case("highway", Highway, 6, (8,)),
    vector_case("input_skip", InputSkip, 7, (9,)),
    vector_case("mixture", Mixture, 7, (5, 6, 8)),
    vector_case("autoencoder", Autoencoder, 10, (3, 7, 8)),
    vector_case("residual_mlp", residual_mlp, 6, (9, 12, 14)),
    vector_case("layer_norm_mlp", layer_norm_mlp, 6, (7,)),
    vector_case("maxout", Maxout, 6, (7,), "8 as well if a reduction united what it compares"),
    vector_case("glu_mlp", glu_mlp, 6, (7, 9)),
    vector_case("dropouts", Dropouts, 6, (8, 9), "noise is in the graph of training only"),
    vector_case("slice_assignment", SliceAssignment, 6, (7,)),
    vector_case("standardised", Standardised, 6, (8,)),
    Case(
        "fourier_features",
        FourierFeatures,
        numbers((3,)),
        (8, 11),
        "8: made by a buffer, read twice; inputs are read by numbers that do not learn",
    ),
    vector_case("inner_softmax", InnerSoftmax, 6, (7,), "shares need all units"),
    vector_case("centred_units", CentredUnits, 6, (7,), "the mean needs all units"),
    vector_case("picked_units", PickedUnits, 6, (7,), "their numbers are fixed"),
    vector_case("side_gates", SideGates, 6, (8,), "the four numbers stay"),
    Case("added_spectrum", AddedSpectrum, numbers((8,)), (7,), "a transform of all inputs is read"),
    Case("reader_of_both", ReaderOfBoth, numbers((8,)), (7,), "a transform of all inputs is read"),
    vector_case("shared_reader", SharedReader, 6, (7, 9), "constants of a unit differ by use"),
    vector_case("spectral_side", SpectralSide, 6, (7,), "the transform needs all units"),
    vector_case("hidden_output", HiddenOutput, 6, (8,), "the other hidden layer is an output"),
    Case("radial_basis", RadialBasis, numbers((4,)), (), "nothing is removable"),
)
