"""A Transformer language model: every word reads those before it.

A layer looks `context` words back, the word itself included, and tells words apart by how far back
they are, not by where they stand (rotary positions, Su et al. 2021): a text of any length can be
read, and no distance is met that was not met in training, if windows are as long as the context.
Layers reach further together, `layers·(context − 1)` words.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets.arguments import check_sizes
from sparsemble.nets.transformer_block import blocks, initialise, rotary_angles


class TransformerLanguageModel(nn.Module):
    """Predicts the next word at every position of a text; called as `LanguageModel` is.

    It carries no state: what it returns for one is empty, and every call reads a text of its own.

    Args:
        words: Size of the vocabulary.
        width: Of every position's vector within.
        context: How many words back a layer looks, the word itself included.
        layers: How many blocks.
        heads: Of the attention in each; each needs an even share of the width.
        inner: Units of the hidden layer in each; by default four times the width.
        dropout: The share that is dropped of the embedding, and of what each block adds.
        shared: Are the decoder's weights the embedding's?

    >>> model = TransformerLanguageModel(words=50, width=32, context=35)
    >>> logits, state = model(torch.zeros(35, 20, dtype=torch.long))
    >>> logits.shape, state
    (torch.Size([35, 20, 50]), ())
    """

    def __init__(
        self,
        words: int,
        width: int,
        *,
        context: int,
        layers: int = 2,
        heads: int = 4,
        inner: int | None = None,
        dropout: float = 0.0,
        shared: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(words=words, context=context)
        self.blocks = blocks(width, layers, heads, inner, dropout)
        if width // heads % 2:
            raise InputError(
                f"width = {width} gives each of {heads} heads {width // heads} numbers, which are "
                f"turned in pairs: give a multiple of {2 * heads}"
            )
        self.context = context
        self.head_size = width // heads
        self.embedding = nn.Embedding(words, width)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(width)
        self.decoder = nn.Linear(width, words)
        if shared:
            self.decoder.weight = self.embedding.weight
        self.reset_parameters()

    @property
    def shared(self) -> bool:
        """Does the decoder use the embedding's weights?"""
        return self.decoder.weight is self.embedding.weight

    def reset_parameters(self) -> None:
        """Draw fresh weights."""
        initialise(self)

    def forward(self, tokens: Tensor, state: tuple[()] | None = None) -> tuple[Tensor, tuple[()]]:
        """Logits `(steps, streams, words)` of tokens `(steps, streams)`, and no state."""
        values = self.dropout(self.embedding(tokens.t()))
        places = torch.arange(tokens.shape[0], device=tokens.device)
        back = places.unsqueeze(1) - places
        mask = (back >= 0) & (back < self.context)
        angles = rotary_angles(tokens.shape[0], self.head_size, values)
        for block in self.blocks:
            values = block(values, mask, angles)
        logits: Tensor = self.decoder(self.norm(values).transpose(0, 1))
        return logits, ()
