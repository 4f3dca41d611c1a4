"""Networks that run but must be refused, each with the reason as its note."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from zoo.cases import Case, Inputs, numbers, words_and_lengths


class DataDependentBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.fc1(x))
        if h.mean() > 0.4:
            h = h / 2
        return self.fc2(h)


class RepeatedByItem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.fc1(x))
        steps = int(h.detach().abs().max().clamp(1, 3).item())
        for _ in range(steps):
            h = torch.tanh(h)
        return self.fc2(h)


class ScaledByItem(nn.Module):
    """torch.export lets this pass: a number of Python's that depends on the units."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.fc1(x))
        return self.fc2(h / (1 + h.max().item()))


class PackedLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.lstm = nn.LSTM(5, 7, batch_first=True)
        self.fc = nn.Linear(7, 3)

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.embed(text), lengths, batch_first=True, enforce_sorted=False
        )
        _, (hidden, _) = self.lstm(packed)
        return self.fc(hidden[-1])


def probabilities() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=-1))


class TimeFirst(nn.Module):
    """Inputs and outputs of shape (time, batch, features), as torch's LSTM has them."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 7)
        self.fc = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.lstm(x)
        return self.fc(output)


def time_first(*lengths: int) -> Inputs:
    return lambda batch, variant: (torch.randn(lengths[min(variant, 1)], batch, 4),)


FLAT = numbers((6,))
REFUSALS = (
    Case("data_dependent_branch", DataDependentBranch, FLAT, None, "an `if` that asks the data"),
    Case("repeated_by_item", RepeatedByItem, FLAT, None, "`.item()` says how often"),
    Case("scaled_by_item", ScaledByItem, FLAT, None, "`.item()` of what units say"),
    Case("packed_lstm", PackedLSTM, words_and_lengths(20, 5, 4), None, "a packed sequence"),
    Case("softmax_output", probabilities, FLAT, None, "probabilities, not logits"),
    Case("time_first", TimeFirst, time_first(6, 4), None, "the batch is the second dimension"),
)
