"""Which network a recipe trains, as settings; `build` makes one for a task's numbers of in- and
outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from sparsemble.errors import InputError
from sparsemble.extensions import PATTERN, open_union
from sparsemble.nets import LanguageModel, feedforward
from sparsemble.nets.layers import ELEMENTWISE
from sparsemble.recipes.code import made_by
from sparsemble.settings import Positive, Settings
from sparsemble.structure import Layout

Size = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class NetworkSettings(Settings, ABC):
    """A network by its settings."""

    @abstractmethod
    def build(self, inputs: int, outputs: int) -> nn.Module:
        """A freshly initialised network."""

    def layout(self) -> Layout | None:
        """Its layout, if it brings one."""
        return None

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its units."""
        raise InputError(
            "small dense networks can be had of the kinds feedforward and lstm only: give another "
            "baseline"
        )


class FeedForwardSettings(NetworkSettings):
    """A feed-forward network by its hidden sizes."""

    kind: Literal["feedforward"] = "feedforward"
    hidden: tuple[Size, ...]
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
        return self.model_copy(update={"hidden": _shares(self.hidden, share)})


class LSTMSettings(NetworkSettings):
    """An LSTM that reads words; the embedding is as wide as the last layer unless given."""

    kind: Literal["lstm"] = "lstm"
    hidden: Annotated[tuple[Size, ...], Field(min_length=1)]
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
        update: dict[str, object] = {"hidden": _shares(self.hidden, share)}
        if self.embedding is not None:
            (update["embedding"],) = _shares((self.embedding,), share)
        return self.model_copy(update=update)


def _shares(sizes: tuple[int, ...], share: float) -> tuple[int, ...]:
    """Of every size a share, at least one."""
    return tuple(max(round(share * size), 1) for size in sizes)


class CustomNetwork(NetworkSettings):
    """A network of your own: `factory` names a function without arguments, by import path.

    It returns a freshly initialised module, or a pair of that and its `Layout`.
    """

    kind: Literal["custom"] = "custom"
    factory: Annotated[str, Field(pattern=PATTERN)]
    """Your function: `package.module:function`, without arguments."""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """What the function makes."""
        return made_by(self.factory)[0]

    def layout(self) -> Layout | None:
        """What the function gives beside the network."""
        return made_by(self.factory)[1]


if TYPE_CHECKING:
    AnyNetwork = NetworkSettings
else:
    AnyNetwork = open_union(
        NetworkSettings, FeedForwardSettings, LSTMSettings, CustomNetwork, default="feedforward"
    )
