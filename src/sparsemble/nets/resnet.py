"""A residual network for small pictures.

A block computes `relu(x + F(x))`, F two convolutions with batch normalisation, so that what it adds
to its input is learned; where the sizes change, x is projected. As He et al. (2016) built them for
CIFAR-10: a stem, stages of blocks that halve the picture and have more channels, the mean over all
pixels, one linear layer. With three stages of n blocks each it has 6n + 2 layers.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn.functional import relu

from sparsemble.nets.arguments import check_sizes
from sparsemble.nets.pictures import as_pictures, checked_shape


class ResNet(nn.Module):
    """Stages of residual blocks, each with channels of its own.

    Args:
        shape: Channels, height and width of the pictures.
        channels: Of each stage; all but the first halve height and width.
        outputs: How many numbers it returns, one for each class.
        blocks: Of every stage.

    >>> import torch
    >>> network = ResNet((3, 32, 32), [16, 32, 64], 10, blocks=1)
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, shape: Sequence[int], channels: Sequence[int], outputs: int, *, blocks: int = 2
    ) -> None:
        super().__init__()
        self.shape = checked_shape(shape)
        check_sizes(channels=channels, outputs=outputs, blocks=blocks)
        self.stem = nn.Sequential(*_convolution(self.shape[0], channels[0]), nn.ReLU())
        width, stages = channels[0], []
        for number, size in enumerate(channels):
            first = ResidualBlock(width, size, stride=1 if number == 0 else 2)
            others = (ResidualBlock(size, size) for _ in range(blocks - 1))
            stages.append(nn.Sequential(first, *others))
            width = size
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(width, outputs)

    def forward(self, values: Tensor) -> Tensor:
        """Logits `(batch, outputs)` of pictures, flat or not."""
        values = self.stages(self.stem(as_pictures(values, self.shape)))
        logits: Tensor = self.head(values.mean((2, 3)))
        return logits


class ResidualBlock(nn.Module):
    """`relu(x + F(x))`, with a projection of x where F changes its size."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *_convolution(inputs, outputs, stride=stride),
            nn.ReLU(),
            *_convolution(outputs, outputs),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Sequential(
            *([] if same else _convolution(inputs, outputs, kernel=1, stride=stride))
        )

    def forward(self, values: Tensor) -> Tensor:
        """`(batch, inputs, height, width)` to `(batch, outputs, ⌈height/stride⌉, …)`."""
        return relu(self.shortcut(values) + self.residual(values))


def _convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
    """Normalised, so that it needs no bias."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]
