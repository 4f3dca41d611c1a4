"""Settings of feed-forward networks."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from sparsemble.nets import feedforward
from sparsemble.nets.layers import ELEMENTWISE
from sparsemble.recipes.networks.settings import ReadyMadeSettings, Share, Size, shares


class FeedForwardSettings(ReadyMadeSettings):
    """A feed-forward network by its hidden sizes."""

    kind: Literal["feedforward"] = "feedforward"
    hidden: Annotated[tuple[Size, ...], Field(max_length=1000)]
    """Units of the hidden layers."""
    activation: str = "relu"
    """What follows every hidden layer."""
    dropout: Share = 0.0
    """Share of hidden units left out while training."""

    @model_validator(mode="after")
    def _known_activation(self) -> Self:
        if self.activation not in ELEMENTWISE:
            raise ValueError(
                f"activation {self.activation!r} is not one of {', '.join(ELEMENTWISE)}"
            )
        return self

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """From `inputs` features to `outputs` numbers."""
        return feedforward(
            inputs, self.hidden, outputs, activation=self.activation, dropout=self.dropout
        )

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its hidden units."""
        return self.model_copy(update={"hidden": shares(self.hidden, share)})
