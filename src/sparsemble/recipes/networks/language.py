"""Settings of language models."""

from __future__ import annotations

from typing import Literal, Self

from torch import nn

from sparsemble.nets import LanguageModel, TransformerLanguageModel
from sparsemble.recipes.networks.sequences import narrower, thinner
from sparsemble.recipes.networks.settings import (
    Depth,
    ReadyMadeSettings,
    Share,
    Size,
    Sizes,
)
from sparsemble.settings import NotNegative, Positive


class LSTMSettings(ReadyMadeSettings):
    """An LSTM that reads words; the embedding is as wide as the last layer unless given."""

    kind: Literal["lstm"] = "lstm"
    hidden: Sizes
    """Units of the LSTM layers."""
    embedding: Size | None = None
    """Width of the embedding; by default that of the last layer."""
    dropout: Share = 0.0
    """Share left out of every layer's input and before the softmax."""
    input_dropout: Share | None = None
    """Share left out of the first layer's input; by default that of `dropout`."""
    output_dropout: Share | None = None
    """Share left out before the softmax; by default that of `dropout`."""
    variational: bool = False
    """Leave out the same at every step of a window."""
    weight_dropout: Share = 0.0
    """Share of recurrent weights left out, the same ones at every step of a window."""
    activation_penalty: NotNegative = 0.0
    """What large activations before the softmax cost: Merity et al.'s α, often 2."""
    change_penalty: NotNegative = 0.0
    """What their changes from step to step cost: Merity et al.'s β, often 1."""
    shared: bool = False
    """Are the embedding's weights also the decoder's?"""
    init_range: Positive = 0.1
    """Weights start uniformly within ± this."""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """For a vocabulary of `outputs` words."""
        return LanguageModel(
            outputs,
            self.embedding or self.hidden[-1],
            self.hidden,
            dropout=self.dropout,
            input_dropout=self.input_dropout,
            output_dropout=self.output_dropout,
            variational=self.variational,
            weight_dropout=self.weight_dropout,
            activation_penalty=self.activation_penalty,
            change_penalty=self.change_penalty,
            shared=self.shared,
            init_range=self.init_range,
        )

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its units and of the embedding's width."""
        return self.model_copy(update=thinner(self.hidden, self.embedding, share))


class TransformerLanguageSettings(ReadyMadeSettings):
    """A Transformer that reads words and looks back only."""

    kind: Literal["transformer-language"] = "transformer-language"
    width: Size
    """Of every position's vector; each head needs an even share of it."""
    context: Size
    """How many words back a block looks; best as many as `task.window`."""
    layers: Depth = 2
    """Blocks of attention and two layers."""
    heads: Size = 4
    """Of the attention in every block."""
    inner: Size | None = None
    """Units of the hidden layer of every block; by default four times the width."""
    dropout: Share = 0.0
    """Share left out of the embedding and of what each block adds."""
    shared: bool = False
    """Are the embedding's weights also the decoder's?"""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """For a vocabulary of `outputs` words."""
        return TransformerLanguageModel(
            outputs,
            self.width,
            context=self.context,
            layers=self.layers,
            heads=self.heads,
            inner=self.inner,
            dropout=self.dropout,
            shared=self.shared,
        )

    def narrowed(self, share: float) -> Self:
        """The same with heads, and layers between them, of only a share of their width."""
        return self.model_copy(update=narrower(self.width, self.inner, share, 2 * self.heads))
