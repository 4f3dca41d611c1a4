"""Settings of networks for pictures."""

from __future__ import annotations

import math
from typing import Literal, Self

from torch import nn

from sparsemble.errors import InputError
from sparsemble.nets import ResNet, SmallCNN
from sparsemble.nets.pictures import Shape
from sparsemble.recipes.networks.settings import (
    Depth,
    ReadyMadeSettings,
    Share,
    Size,
    Sizes,
    shares,
)


class _PictureSettings(ReadyMadeSettings):
    shape: tuple[Size, Size, Size] | None = None
    """Channels, height and width of the pictures; by default one square channel."""

    def shape_of(self, inputs: int) -> Shape:
        """The shape of pictures of so many numbers."""
        side = math.isqrt(inputs)
        shape = self.shape or (1, side, side)
        if math.prod(shape) != inputs:
            wrong = "are no square picture" if self.shape is None else f"are no picture of {shape}"
            raise InputError(
                f"inputs of {inputs} numbers {wrong}: give network.shape, [channels, height, width]"
            )
        return shape


class CNNSettings(_PictureSettings):
    """A small convolutional network with batch normalisation."""

    kind: Literal["cnn"] = "cnn"
    channels: Sizes
    """Of every block: a convolution, and a pooling that halves the picture."""
    dropout: Share = 0.0
    """Share left out before the last layer while training."""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """From pictures of `inputs` numbers to `outputs` numbers."""
        return SmallCNN(self.shape_of(inputs), self.channels, outputs, dropout=self.dropout)

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its channels."""
        return self.model_copy(update={"channels": shares(self.channels, share)})


class ResNetSettings(_PictureSettings):
    """A residual network for small pictures."""

    kind: Literal["resnet"] = "resnet"
    channels: Sizes
    """Of every stage; all but the first halve the picture."""
    blocks: Depth = 2
    """Residual blocks of every stage."""

    def build(self, inputs: int, outputs: int) -> nn.Module:
        """From pictures of `inputs` numbers to `outputs` numbers."""
        return ResNet(self.shape_of(inputs), self.channels, outputs, blocks=self.blocks)

    def narrowed(self, share: float) -> Self:
        """The same with only a share of its channels."""
        return self.model_copy(update={"channels": shares(self.channels, share)})
