"""What a recipe holds. Each section is the settings of one part, so limits are written there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from sparsemble.data import Dataset, digits, mnist
from sparsemble.layouts import Grouping, feedforward
from sparsemble.layouts.layers import ELEMENTWISE
from sparsemble.priors import AnyPrior, NoPrior
from sparsemble.settings import Settings
from sparsemble.stages import ChainSettings, PruneSettings, RetrainSettings


class DataSettings(Settings):
    """Which data set; `held_out` training examples at the end become the test set instead."""

    name: Literal["digits", "mnist"]
    held_out: Annotated[int, Field(ge=0)] = 0

    def load(self, folder: Path | None = None) -> tuple[Dataset, Dataset]:
        """The training set, and the set that results are measured on."""
        train, test = digits() if self.name == "digits" else mnist(folder)
        return train.split(self.held_out) if self.held_out else (train, test)


class NetworkSettings(Settings):
    """A feed-forward network by its hidden sizes."""

    hidden: tuple[Annotated[int, Field(ge=1)], ...]
    activation: str = "relu"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="after")
    def _known_activation(self) -> Self:
        if self.activation not in ELEMENTWISE:
            raise ValueError(
                f"activation {self.activation!r} is not one of {', '.join(ELEMENTWISE)}"
            )
        return self

    def build(self, data: Dataset) -> nn.Sequential:
        """A freshly initialised network for `data`."""
        return feedforward(
            data.inputs[0].numel(),
            self.hidden,
            len(data.class_names),
            activation=self.activation,
            dropout=self.dropout,
        )


class Recipe(Settings):
    """One run of the method: prior, chain, pruning, retraining; data and network by name.

    Without `prune` the members stay dense, without `retrain` they stay as sampled. `data` and
    `network` are only for runs from the command line.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] = "recipe"
    description: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    data: DataSettings | None = None
    network: NetworkSettings | None = None
    grouping: Grouping = "outgoing"
    prior: AnyPrior = NoPrior()
    chain: ChainSettings
    prune: PruneSettings | None = None
    retrain: RetrainSettings | None = None
