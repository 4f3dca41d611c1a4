"""Networks of the user's own, by import path."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from sparsemble.extensions import PATTERN
from sparsemble.recipes.code import made_by
from sparsemble.recipes.networks.settings import NetworkSettings
from sparsemble.structure import Layout


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
