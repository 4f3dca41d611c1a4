"""A Transformer encoder that reads a sequence and answers once."""

from __future__ import annotations

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets.arguments import check_sizes
from sparsemble.nets.sequences import as_vectors, as_words, check_kind
from sparsemble.nets.transformer_block import blocks, initialise


class TransformerClassifier(nn.Module):
    """Blocks in which every position reads all others; then their mean, and one linear layer.

    Reads words, `(batch, time)`, or vectors, `(batch, time, features)` or flat. Positions are told
    apart by a learned vector for each.

    Args:
        length: The longest sequence.
        width: Of every position's vector within.
        outputs: How many numbers it returns, one for each class.
        words: Size of the vocabulary, of sequences of words.
        features: Numbers of a vector, of sequences of vectors.
        layers: How many blocks.
        heads: Of the attention in each.
        inner: Units of the hidden layer in each; by default four times the width.
        dropout: The share that is dropped of the embedding, and of what each block adds.
        padding: The word that fills short sequences up; it is neither read nor averaged.

    >>> import torch
    >>> network = TransformerClassifier(length=20, width=32, outputs=2, words=50, padding=0)
    >>> network(torch.ones(5, 12, dtype=torch.long)).shape
    torch.Size([5, 2])
    >>> TransformerClassifier(length=8, width=32, outputs=10, features=8)(torch.ones(5, 64)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        length: int,
        width: int,
        outputs: int,
        *,
        words: int | None = None,
        features: int | None = None,
        layers: int = 2,
        heads: int = 4,
        inner: int | None = None,
        dropout: float = 0.0,
        padding: int | None = None,
    ) -> None:
        super().__init__()
        check_kind(words, features)
        check_sizes(length=length, outputs=outputs)
        if padding is not None and not 0 <= padding < (words or 0):
            raise InputError(
                f"padding = {padding}: must be a word's index, 0 or more and below {words or 0}"
            )
        self.features = features
        self.length = length
        self.padding = padding
        self.blocks = blocks(width, layers, heads, inner, dropout)
        self.embedding = nn.Linear(features, width) if features else nn.Embedding(words or 0, width)
        self.positions = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw fresh weights."""
        initialise(self)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits `(batch, outputs)`."""
        read = as_words(inputs) if self.features is None else as_vectors(inputs, self.features)
        if read.shape[1] > self.length:
            raise InputError(
                f"a sequence of {read.shape[1]} is longer than length = {self.length}: cut it, or "
                "give the network more length"
            )
        values = self.embedding(read) + self.positions.weight[: read.shape[1]]
        values = self.dropout(values)
        if self.padding is None:
            return self._answer(self._encoded(values).mean(1))
        valid = read != self.padding
        # Nothing but padding is read as it is: a softmax over nothing is no number.
        readable = valid | ~valid.any(1, keepdim=True)
        encoded = self._encoded(values, readable[:, None, None])
        counts = valid.sum(1, keepdim=True).clamp(min=1)
        return self._answer((encoded * valid.unsqueeze(2)).sum(1) / counts)

    def _encoded(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        for block in self.blocks:
            values = block(values, mask)
        encoded: Tensor = self.norm(values)
        return encoded

    def _answer(self, pooled: Tensor) -> Tensor:
        logits: Tensor = self.head(pooled)
        return logits
