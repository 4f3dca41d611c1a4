"""Networks around torch's LSTM, GRU and RNN: layers, directions, and what is read of them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.cases import Case, numbers, words


class LSTMClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.fc = nn.Linear(8, 4)

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.lstm(self.embedding(text))
        return self.fc(output[:, -1, :])


class StackedLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 5, padding_idx=0)
        self.lstm = nn.LSTM(5, 7, num_layers=2, dropout=0.2, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(7, 4)

    def forward(self, text: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(self.dropout(self.embedding(text)))
        return self.fc(self.dropout(hidden[-1]))


class BiLSTM(nn.Module):
    """The last states of both directions of the last layer."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 7, layers, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(14, 4)

    def forward(self, text: Tensor) -> Tensor:
        _, (hidden, _) = self.lstm(self.embedding(text))
        return self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1))


class BiLSTMMean(BiLSTM):
    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.lstm(self.embedding(text))
        return self.fc(output.mean(dim=1))


class TimeMajorLSTM(nn.Module):
    """torch's default order; the final cell states are read beside the final outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size=4, hidden_size=9)
        self.fc = nn.Linear(18, 3)

    def forward(self, x: Tensor) -> Tensor:
        _, (h, c) = self.lstm(x.transpose(0, 1))
        return self.fc(torch.cat([h.squeeze(0), c.squeeze(0)], dim=-1))


class GRUMax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.gru = nn.GRU(6, 9, batch_first=True, bias=False)
        self.fc1, self.fc2 = nn.Linear(9, 7), nn.Linear(7, 4)

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.gru(self.embed(text))
        return self.fc2(F.relu(self.fc1(output.max(dim=1)[0])))


class BiGRU(nn.Module):
    """An output a step, from two layers in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.gru = nn.GRU(5, 6, 2, batch_first=True, dropout=0.1, bidirectional=True)
        self.tag = nn.Linear(12, 3)

    def forward(self, text: Tensor) -> Tensor:
        return self.tag(self.gru(self.embed(text))[0])


class SummedDirections(nn.Module):
    """Both directions are added: a unit of one goes with its like of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.gru = nn.GRU(6, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(8, 4)

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.gru(self.embed(text))
        output = output[:, :, :8] + output[:, :, 8:]
        return self.fc(output[:, -1])


class AllStates(nn.Module):
    """The final states of both directions, moved into one vector at once."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.gru = nn.GRU(6, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(16, 4)

    def forward(self, text: Tensor) -> Tensor:
        _, hidden = self.gru(self.embed(text))
        return self.fc(hidden.transpose(0, 1).reshape(text.size(0), -1))


class ElmanNetwork(nn.Module):
    def __init__(self, nonlinearity: str, layers: int) -> None:
        super().__init__()
        self.hidden_size, self.layers = 8, layers
        self.rnn = nn.RNN(3, 8, layers, nonlinearity=nonlinearity, batch_first=True)
        self.fc = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h0 = torch.zeros(self.layers, x.size(0), self.hidden_size, device=x.device, dtype=x.dtype)
        out, _ = self.rnn(x, h0)
        return self.fc(out[:, -1, :])


class LanguageLSTM(nn.Module):
    """The table of words is the last layer as well."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 8, 2, dropout=0.1, batch_first=True)
        self.decoder = nn.Linear(8, 20)
        self.decoder.weight = self.encoder.weight

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.rnn(self.encoder(text))
        return self.decoder(output)


class ResidualGRU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList([nn.GRU(8, 8, batch_first=True) for _ in range(2)])
        self.fc = nn.Linear(8, 4)

    def forward(self, text: Tensor) -> Tensor:
        x = self.embed(text)
        for block in self.blocks:
            x = x + block(x)[0]
        return self.fc(x.mean(1))


class SquashedLSTM(nn.Module):
    """A silent unit says a half."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 5)
        self.lstm = nn.LSTM(5, 7, batch_first=True)
        self.fc = nn.Linear(7, 4)

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.lstm(self.embed(text))
        return self.fc(torch.sigmoid(output[:, -1]))


class FlattenedStates(nn.Module):
    """Every step has weights of its own in the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 7, batch_first=True)
        self.fc = nn.Linear(5 * 7, 3)

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.lstm(self.embed(text))
        return self.fc(output.flatten(start_dim=1))


class ProjectedLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 9, proj_size=5, batch_first=True)
        self.hidden, self.fc = nn.Linear(5, 7), nn.Linear(7, 4)

    def forward(self, text: Tensor) -> Tensor:
        output, _ = self.lstm(self.embed(text))
        return self.fc(F.relu(self.hidden(output[:, -1])))


TEXT = words(20, 5, 4)
RECURRENT = (
    Case("lstm_last", LSTMClassifier, TEXT, (6, 8)),
    Case("lstm_stacked", StackedLSTM, TEXT, (5, 7, 7)),
    Case("bilstm_states", lambda: BiLSTM(1), TEXT, (6, 7, 7)),
    Case("bilstm_stacked_mean", lambda: BiLSTMMean(2), TEXT, (6, 7, 7, 7, 7)),
    Case("lstm_time_major", TimeMajorLSTM, numbers((5, 4), (4, 4)), (9,), "the cell is read too"),
    Case("gru_max", GRUMax, TEXT, (6, 7, 9)),
    Case("bigru_tagger", BiGRU, TEXT, (5, 6, 6, 6, 6), "an output a step"),
    Case("summed_directions", SummedDirections, TEXT, (6, 8)),
    Case("all_states", AllStates, TEXT, None, "6, and 8 and 8 if stacked states can be told apart"),
    Case("rnn_tanh", lambda: ElmanNetwork("tanh", 2), numbers((5, 3), (4, 3)), (8, 8)),
    Case("rnn_relu", lambda: ElmanNetwork("relu", 1), numbers((5, 3), (4, 3)), (8,)),
    Case("lstm_tied", LanguageLSTM, TEXT, (8, 8), "an output a step, tied to the input"),
    Case("gru_residual", ResidualGRU, TEXT, (8,), "one stream through words and both layers"),
    Case("lstm_sigmoid", SquashedLSTM, TEXT, (5, 7)),
    Case("lstm_flattened", FlattenedStates, words(20, 5), (6, 7), "a unit has five columns"),
    Case("lstm_projected", ProjectedLSTM, TEXT, None, "6, 7, and 9 and 5 with a rule for it"),
)
