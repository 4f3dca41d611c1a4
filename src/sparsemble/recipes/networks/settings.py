"""What the settings of every kind of network have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Self

import torch
from pydantic import Field
from torch import nn

from sparsemble.errors import InputError
from sparsemble.memory import bytes_of, check_memory
from sparsemble.settings import Settings
from sparsemble.structure import Layout

Size = Annotated[int, Field(ge=1, le=100_000_000)]
Depth = Annotated[int, Field(ge=1, le=1000)]
"""How many layers or blocks."""
Sizes = Annotated[tuple[Size, ...], Field(min_length=1, max_length=1000)]
Share = Annotated[float, Field(ge=0, lt=1)]


class NetworkSettings(Settings, ABC):
    """A network by its settings."""

    @abstractmethod
    def build(self, inputs: int, outputs: int) -> nn.Module:
        """A freshly initialised network."""

    def made(self, inputs: int, outputs: int) -> nn.Module:
        """The same, if it can be had here."""
        return self.build(inputs, outputs)

    def layout(self) -> Layout | None:
        """Its layout, if it brings one."""
        return None

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its units."""
        raise InputError(
            "small dense networks can be had of the kinds that come along only, not of "
            f"{type(self).__name__}: give another baseline"
        )


class ReadyMadeSettings(NetworkSettings, ABC):
    """A network that comes along; its sizes can be asked for before there is memory for it."""

    def made(self, inputs: int, outputs: int) -> nn.Module:
        """The same, if such a network fits into memory."""
        with torch.device("meta"):
            needed = bytes_of(self.build(inputs, outputs))
        check_memory(needed, "the network of the recipe")
        return self.build(inputs, outputs)


def shares(sizes: tuple[int, ...], share: float, multiple: int = 1) -> tuple[int, ...]:
    """Of every size a share, a multiple of some number and at least that.

    >>> shares((64, 10), 0.3, multiple=4)
    (20, 4)
    """
    return tuple(multiple * max(round(share * size / multiple), 1) for size in sizes)
