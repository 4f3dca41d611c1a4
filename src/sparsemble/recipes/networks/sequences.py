"""Settings of networks that read a sequence and answer once."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from sparsemble.errors import InputError
from sparsemble.nets import RecurrentClassifier, TransformerClassifier
from sparsemble.recipes.networks.settings import (
    Depth,
    ReadyMadeSettings,
    Share,
    Size,
    Sizes,
    shares,
)


class _SequenceSettings(ReadyMadeSettings):
    words: Size | None = None
    """Size of the vocabulary, where inputs are words; else say `features`."""
    features: Size | None = None
    """Numbers of every vector, where inputs are vectors, one after the other."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.words is None) == (self.features is None):
            raise ValueError(
                "give either words, the size of the vocabulary, or features, the numbers of every "
                "vector"
            )
        return self

    def length_of(self, inputs: int) -> int:
        """How long sequences of so many inputs are."""
        length, rest = divmod(inputs, self.features or 1)
        if rest:
            raise InputError(
                f"inputs of {inputs} numbers are no vectors of network.features = {self.features}: "
                "give a divisor"
            )
        return length


class TransformerSettings(_SequenceSettings):
    """A Transformer encoder, of words or of vectors."""

    kind: Literal["transformer"] = "transformer"
    width: Size
    """Of every position's vector; the heads share it."""
    layers: Depth = 2
    """Blocks of attention and two layers."""
    heads: Size = 4
    """Of the attention in every block."""
    inner: Size | None = None
    """Units of the hidden layer of every block; by default four times the width."""
    dropout: Share = 0.0
    """Share left out of the embedding and of what each block adds."""
    padding: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    """Index of the word that fills short sequences up."""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """From sequences of `inputs` words or numbers to `outputs` numbers."""
        return TransformerClassifier(
            self.length_of(inputs),
            self.width,
            outputs,
            words=self.words,
            features=self.features,
            layers=self.layers,
            heads=self.heads,
            inner=self.inner,
            dropout=self.dropout,
            padding=self.padding,
        )

    def narrowed(self, share: float) -> Self:
        """The same with heads, and layers between them, of only a share of their width."""
        return self.model_copy(update=narrower(self.width, self.inner, share, self.heads))


class RecurrentSettings(_SequenceSettings):
    """LSTM or GRU layers, over words or vectors."""

    kind: Literal["recurrent"] = "recurrent"
    hidden: Sizes
    """Units of the layers, in each direction."""
    embedding: Size | None = None
    """Width of the words' embedding; by default that of the first layer."""
    cell: Literal["lstm", "gru"] = "lstm"
    """What the layers are made of."""
    bidirectional: bool = False
    """Read backwards as well."""
    dropout: Share = 0.0
    """Share left out of every layer's input and before the last layer."""
    pooling: Literal["mean", "last"] = "mean"
    """What the last layer reads: the mean over all steps, or the state after the last."""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """From sequences of `inputs` words or numbers to `outputs` numbers."""
        self.length_of(inputs)
        return RecurrentClassifier(
            self.hidden,
            outputs,
            words=self.words,
            features=self.features,
            embedding=self.embedding,
            cell=self.cell,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            pooling=self.pooling,
        )

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its units and of the embedding's width."""
        return self.model_copy(update=thinner(self.hidden, self.embedding, share))


def thinner(hidden: tuple[int, ...], embedding: int | None, share: float) -> dict[str, object]:
    """A share of the units of layers, and of an embedding's width if it has one of its own."""
    update: dict[str, object] = {"hidden": shares(hidden, share)}
    if embedding is not None:
        (update["embedding"],) = shares((embedding,), share)
    return update


def narrower(width: int, inner: int | None, share: float, multiple: int) -> dict[str, int]:
    """A share of a Transformer's width, still a multiple of what divides it, and of its units."""
    update = {"width": shares((width,), share, multiple)[0]}
    return update if inner is None else {**update, "inner": shares((inner,), share)[0]}
