"""What the settings of every kind of network have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Self

from pydantic import Field
from torch import nn

from sparsemble.errors import InputError
from sparsemble.settings import Settings
from sparsemble.structure import Layout

Size = Annotated[int, Field(ge=1)]
Sizes = Annotated[tuple[Size, ...], Field(min_length=1)]
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
            "small dense networks can be had of the kinds that come along only, not of "
            f"{type(self).__name__}: give another baseline"
        )


def shares(sizes: tuple[int, ...], share: float, multiple: int = 1) -> tuple[int, ...]:
    """Of every size a share, a multiple of some number and at least that.

    >>> shares((64, 10), 0.3, multiple=4)
    (20, 4)
    """
    return tuple(multiple * max(round(share * size / multiple), 1) for size in sizes)
