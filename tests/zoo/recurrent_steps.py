"""Recurrent networks that step themselves, start somewhere, have lengths, or pay attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, beside, numbers, words, words_and_lengths


class LSTMCellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 9)
        self.fc = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 9, dtype=x.dtype, device=x.device)
        c = torch.zeros_like(h)
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
        return self.fc(h)


class GRUCellLoop(nn.Module):
    """Two cells on top of each other; every step's output is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.lower, self.upper = nn.GRUCell(5, 7), nn.GRUCell(7, 8)
        self.fc = nn.Linear(8, 4)

    def forward(self, text: Tensor) -> Tensor:
        steps = self.embed(text).unbind(dim=1)
        low, high = steps[0].new_zeros(text.size(0), 7), steps[0].new_zeros(text.size(0), 8)
        outputs = []
        for step in steps:
            low = self.lower(step, low)
            high = self.upper(low, high)
            outputs.append(high)
        return self.fc(torch.stack(outputs, dim=1))


class RNNCellBack(nn.Module):
    """What was said goes back in with the next input."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(3 + 6, 8)
        self.say = nn.Linear(8, 6)
        self.fc = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h, said = x.new_zeros(x.shape[0], 8), x.new_zeros(x.shape[0], 6)
        for step in x.split(1, dim=1):
            h = self.cell(torch.cat([step.squeeze(1), said], dim=1), h)
            said = torch.tanh(self.say(h))
        return self.fc(said)


class GatedUnit(nn.Module):
    """A recurrent layer of plain linear ones."""

    def __init__(self) -> None:
        super().__init__()
        self.update_x, self.update_h = nn.Linear(4, 8), nn.Linear(8, 8, bias=False)
        self.new_x, self.new_h = nn.Linear(4, 8), nn.Linear(8, 8, bias=False)
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(self.new_x(x[:, 0]))
        for i in range(x.shape[1]):
            z = torch.sigmoid(self.update_x(x[:, i]) + self.update_h(h))
            h = (1 - z) * h + z * torch.tanh(self.new_x(x[:, i]) + self.new_h(z * h))
        return self.fc(h)


class LearnedStart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.lstm = nn.LSTM(5, 8, batch_first=True)
        self.h0 = nn.Parameter(torch.randn(1, 1, 8) * 0.1)
        self.c0 = nn.Parameter(torch.randn(1, 1, 8) * 0.1)
        self.fc = nn.Linear(8, 4)

    def forward(self, text: Tensor) -> Tensor:
        start = tuple(s.expand(-1, text.size(0), -1).contiguous() for s in (self.h0, self.c0))
        output, _ = self.lstm(self.embed(text), start)
        return self.fc(output[:, -1])


class LastValidStep(nn.Module):
    """How long each text is, is a second input."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 9, batch_first=True)
        self.fc = nn.Linear(9, 4)

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        output, _ = self.lstm(self.embed(text))
        last = (lengths - 1).view(-1, 1, 1).expand(-1, 1, output.size(2))
        return self.fc(output.gather(1, last).squeeze(1))


class MaskedMean(nn.Module):
    """The mean of the steps that count, of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.gru = nn.GRU(5, 7, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(14, 3)

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        output, _ = self.gru(self.embed(text))
        counts = torch.arange(text.shape[1])[None, :] < lengths[:, None]
        total = (output * counts.unsqueeze(-1)).sum(dim=1)
        return self.fc(total / lengths.unsqueeze(-1).to(total.dtype))


class IndexedStep(LastValidStep):
    """The last step that counts, picked by a pair of indices."""

    def forward(self, text: Tensor, lengths: Tensor) -> Tensor:
        output, _ = self.lstm(self.embed(text))
        return self.fc(output[torch.arange(output.shape[0]), lengths - 1])


class ConvLSTM(nn.Module):
    """Convolutions find features of a signal, an LSTM reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(2, 6, 3, padding=1), nn.BatchNorm1d(6), nn.ReLU(), nn.MaxPool1d(2)
        )
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        _, (h, _) = self.lstm(self.conv(x).permute(0, 2, 1))
        return self.fc(h[0])


class Video(nn.Module):
    """A convolutional network for every picture, a GRU over the pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 5, 3), nn.Conv2d(5, 7, 3)
        self.gru = nn.GRU(7, 9, batch_first=True)
        self.fc = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps = x.shape[:2]
        frames = F.relu(self.conv1(x.reshape(batch * steps, *x.shape[2:])))
        frames = F.relu(self.conv2(frames)).mean((-1, -2))
        output, _ = self.gru(frames.view(batch, steps, -1))
        return self.fc(output[:, -1])


class AttentiveLSTM(nn.Module):
    """A weighted mean of all states."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.lstm = nn.LSTM(5, 8, batch_first=True)
        self.attend, self.score = nn.Linear(8, 6), nn.Linear(6, 1, bias=False)
        self.fc = nn.Linear(8, 4)

    def forward(self, text: Tensor) -> Tensor:
        states, _ = self.lstm(self.embed(text))
        weights = F.softmax(self.score(torch.tanh(self.attend(states))), dim=1)
        return self.fc((weights * states).sum(dim=1))


class NormedLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.first, self.norm = nn.LSTM(6, 8, batch_first=True), nn.LayerNorm(8)
        self.second = nn.LSTM(8, 7, batch_first=True)
        self.fc = nn.Linear(7, 4)

    def forward(self, text: Tensor) -> Tensor:
        x, _ = self.first(self.embed(text))
        x, _ = self.second(self.norm(x))
        return self.fc(x[:, -1])


class Seq2Seq(nn.Module):
    """The decoder starts where the encoder ended: units of one are units of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 5), nn.Embedding(15, 6)
        self.encoder = nn.GRU(5, 8, batch_first=True)
        self.decoder = nn.GRU(6, 8, batch_first=True)
        self.out = nn.Linear(8, 15)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, hidden = self.encoder(self.source(source))
        output, _ = self.decoder(F.relu(self.target(target)), hidden)
        return self.out(output)


SERIES = numbers((5, 4), (4, 4))
LENGTHS = words_and_lengths(20, 5, 4)
RECURRENT_STEPS = (
    Case("lstm_cell", LSTMCellLoop, SERIES, (9,), is_unrolled=True),
    Case(
        "gru_cells",
        GRUCellLoop,
        words(20, 5, 4),
        (5, 7, 8),
        "an output a step",
        is_unrolled=True,
    ),
    Case("rnn_cell_back", RNNCellBack, numbers((5, 3), (4, 3)), (6, 8), is_unrolled=True),
    Case("gated_unit", GatedUnit, SERIES, (8,), is_unrolled=True),
    Case("lstm_learned_start", LearnedStart, words(20, 5, 4), (5, 8)),
    Case("lstm_last_valid", LastValidStep, LENGTHS, (6, 9)),
    Case("lstm_indexed", IndexedStep, LENGTHS, (6, 9)),
    Case("bigru_masked_mean", MaskedMean, LENGTHS, (5, 7, 7)),
    Case("conv_lstm", ConvLSTM, numbers((2, 10), (2, 8)), (6, 8)),
    Case("video_gru", Video, numbers((4, 1, 6, 6), (3, 1, 6, 8)), (5, 7, 9)),
    Case("lstm_attention", AttentiveLSTM, words(20, 5, 4), (5, 6, 8)),
    Case("lstm_normed", NormedLSTM, words(20, 5, 4), (6, 7)),
    Case("seq2seq", Seq2Seq, beside(words(20, 5, 4), words(15, 4, 5)), (5, 6, 8)),
)
