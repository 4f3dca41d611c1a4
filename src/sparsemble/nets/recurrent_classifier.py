"""A recurrent network that reads a sequence and answers once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sparsemble.nets.arguments import check_choice, check_shares, check_sizes
from sparsemble.nets.sequences import as_vectors, as_words, check_kind

CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
POOLINGS = ("mean", "last")


class RecurrentClassifier(nn.Module):
    """LSTM or GRU layers over a sequence, then one linear layer.

    Reads words, `(batch, time)`, or vectors, `(batch, time, features)` or flat, in sequences
    of one length.

    Args:
        hidden: Units of the layers, in each direction.
        outputs: How many numbers it returns, one for each class.
        words: Size of the vocabulary, of sequences of words.
        features: Numbers of a vector, of sequences of vectors.
        embedding: Width of the words' embedding; by default that of the first layer.
        cell: `lstm` or `gru`.
        bidirectional: Does every layer read backwards as well?
        dropout: The share that is dropped before every layer and before the linear one.
        pooling: What the linear layer reads: the `mean` over time, or the state after the `last`
            step, in each direction the last that is read.

    >>> network = RecurrentClassifier([32, 16], 3, words=50, bidirectional=True)
    >>> network(torch.ones(5, 12, dtype=torch.long)).shape
    torch.Size([5, 3])
    >>> RecurrentClassifier([32], 10, features=8, cell="gru")(torch.ones(5, 64)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        hidden: Sequence[int],
        outputs: int,
        *,
        words: int | None = None,
        features: int | None = None,
        embedding: int | None = None,
        cell: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        check_kind(words, features)
        check_sizes(hidden=hidden, outputs=outputs)
        width = features or (hidden[0] if embedding is None else embedding)
        check_sizes(embedding=width)
        check_shares(dropout=dropout)
        check_choice("cell", cell, CELLS)
        check_choice("pooling", pooling, POOLINGS)
        self.features = features
        self.pooling = pooling
        self.bidirectional = bidirectional
        self.embedding = None if words is None else nn.Embedding(words, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList()
        for size in hidden:
            self.layers.append(
                CELLS[cell](width, size, batch_first=True, bidirectional=bidirectional)
            )
            width = 2 * size if bidirectional else size
        self.head = nn.Linear(width, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits `(batch, outputs)`."""
        if self.embedding is not None:
            values = self.embedding(as_words(inputs))
        else:
            values = as_vectors(inputs, self.features or 0)
        for layer in self.layers:
            values, after = layer(self.dropout(values))
        if self.pooling == "mean":
            pooled = values.mean(1)
        else:
            states = after[0] if isinstance(after, tuple) else after  # of an LSTM without its cells
            both = self.bidirectional
            pooled = torch.cat([states[0], states[1]], dim=1) if both else states[0]
        logits: Tensor = self.head(self.dropout(pooled))
        return logits
