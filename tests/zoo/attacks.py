"""Odd but legal networks, each of which was once traced wrongly, or ended a trace.

Most of them emit constants that depend on a length: what a unit without inputs gives is the same
for all examples of one length, and something else for another.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers, words


class LinearAttention(nn.Module):
    """Keys and values are multiplied first, and added up over time."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.out, self.fc = nn.Linear(8, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.embed(x))
        q, k, v = (f(x).unflatten(-1, (4, 2)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mixed = (q @ (k.transpose(-1, -2) @ v)).transpose(1, 2).flatten(2)
        return self.fc(F.relu(self.out(mixed))).mean(1)


class SummedByLetters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.embed(x))
        return self.fc(torch.einsum("btd->bd", h) + torch.einsum("btd,btd->bd", h, h.tanh()))


class PaddedAverage(nn.Module):
    """Zeros beside a picture count in its mean, the more the smaller it is."""

    def __init__(self, *, pools: bool) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 8, 3), nn.Linear(8, 3)
        self.pools = pools

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.conv(x))
        h = F.avg_pool2d(h, 3, 1, 1) if self.pools else F.pad(h, (1, 1, 1, 1))
        return self.fc(h.mean((2, 3)))


class WeightedByTime(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], device=x.device)[:, None]
        return self.fc((F.relu(self.embed(x)) * steps).mean(1))


class DividedByLength(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.embed(x)) / x.shape[1]).amax(1)


class Ranks(nn.Module):
    """Where in time the largest stand."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        values, order = F.relu(self.embed(x)).sort(1)
        return self.fc(values[:, -2:].mean(1) + order.to(values.dtype).mean(1))


class TimeDifferences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.embed(x))
        return self.fc((h - torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)).mean(1))


class OtherWhenLong(nn.Module):
    """Another computation for long inputs, and for those whose length is a multiple of 4."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.embed(x))
        if x.shape[1] > 8:
            h = h / math.sqrt(8)
        if x.shape[1] % 4 == 0:
            h = h * 2
        return self.fc(h.mean(1))


class InterleavedGate(nn.Module):
    """A value and its gate stand side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.fc = nn.Linear(6, 12), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.both(x)
        return self.fc(h[:, ::2] * h[:, 1::2].sigmoid())


class RolledHalves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.embed(x))
        return self.fc(h + h.roll(4, 1))


class WeightInThreeRoles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) / 2)
        self.embed, self.fc = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(F.linear(F.relu(self.embed(x)), self.weight))
        return self.fc(h * self.weight[0] + self.weight[:, 1])


class InputsChangedInPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x[:, 0] = 0
        return self.fc(F.relu(self.embed(x)))


class InputsInTwoParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.fc = nn.Linear(4, 8), nn.Linear(2, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.relu(self.first(x[:, :4]) + self.second(x[:, 4:])))


class Unpooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.mix = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 5, 1)
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, where = F.max_pool2d(F.relu(self.conv(x)), 2, return_indices=True)
        return self.fc(F.relu(self.mix(F.max_unpool2d(h, where, 2))).mean((2, 3)))


class GroupedTransposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 6, 3), nn.ConvTranspose2d(6, 9, 3, groups=3)
        self.grouped, self.mix = nn.Conv2d(9, 6, 3, groups=3, padding=1), nn.Conv2d(6, 5, 1)
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.grouped(F.relu(self.up(F.relu(self.conv(x))))))
        return self.fc(F.relu(self.mix(h)).mean((2, 3)))


class OtherInTraining(nn.Module):
    """A second output in training, and statistics of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc, self.aux = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 2)
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        h = F.relu(self.embed(x))
        if not self.training:
            return self.fc(h - self.mean)
        self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))
        return self.fc(h - self.mean), self.aux(h)


class TypeOfAnother(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, text: Tensor) -> Tensor:
        h = self.embed(text)
        counts = torch.ones(text.shape, device=text.device).type_as(h)
        return self.fc((h * counts[..., None]).mean(1))


TIMES, PICTURES, FLAT = numbers((7, 4), (5, 4)), numbers((3, 8, 8), (3, 10, 10)), numbers((6,))
ATTACKS = (
    Case("attention_without_softmax", LinearAttention, TIMES, (4, 6, 8)),
    Case("summed_by_letters", SummedByLetters, numbers((7, 6), (5, 6)), (8,)),
    Case("padded_average_pool", lambda: PaddedAverage(pools=True), PICTURES, (8,)),
    Case("padded_average", lambda: PaddedAverage(pools=False), PICTURES, (8,)),
    Case("weighted_by_time", WeightedByTime, TIMES, (8,)),
    Case("divided_by_length", DividedByLength, TIMES, (8,)),
    Case("ranks", Ranks, TIMES, (8,)),
    Case("time_differences", TimeDifferences, TIMES, (8,)),
    Case("other_when_long", OtherWhenLong, TIMES, (8,), "refuses lengths above 8, and 4 and 8"),
    Case("interleaved_gate", InterleavedGate, FLAT, (6,), "12 as pairs with a rule", (6,)),
    Case("rolled_halves", RolledHalves, FLAT, (6,), features=(6,)),
    Case("weight_in_three_roles", WeightInThreeRoles, FLAT, (6,), features=(6,)),
    Case("inputs_changed_in_place", InputsChangedInPlace, FLAT, (8,)),
    Case("inputs_in_two_parts", InputsInTwoParts, FLAT, (8,)),
    Case("unpooled", Unpooled, PICTURES, (5,)),
    Case("grouped_transposed", GroupedTransposed, PICTURES, (5,)),
    Case(
        "other_in_training",
        OtherInTraining,
        FLAT,
        (6,),
        features=(6,),
    ),
    Case("type_of_another", TypeOfAnother, words(20, 7, 5), None),
)
