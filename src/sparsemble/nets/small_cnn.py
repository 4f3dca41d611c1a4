"""A small convolutional network for pictures."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets.arguments import check_shares, check_sizes
from sparsemble.nets.pictures import as_pictures, checked_shape


class SmallCNN(nn.Module):
    """Blocks of convolution, batch normalisation, ReLU and pooling, then one linear layer.

    Every block halves height and width.

    Args:
        shape: Channels, height and width of the pictures.
        channels: What each block makes.
        outputs: How many numbers it returns, one for each class.
        dropout: The share that is dropped before the linear layer.

    >>> import torch
    >>> network = SmallCNN((1, 8, 8), [16, 32], 10)
    >>> network(torch.zeros(5, 1, 8, 8)).shape, network(torch.zeros(5, 64)).shape
    (torch.Size([5, 10]), torch.Size([5, 10]))
    """

    def __init__(
        self, shape: Sequence[int], channels: Sequence[int], outputs: int, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.shape = checked_shape(shape)
        check_sizes(channels=channels, outputs=outputs)
        check_shares(dropout=dropout)
        depth, height, width = self.shape
        halvings, most = len(channels), min(height, width).bit_length() - 1
        if halvings > most:
            raise InputError(
                f"channels = {list(channels)}: each of {halvings} blocks halves pictures of "
                f"{height}×{width}, which can be done {most} times: give fewer"
            )
        self.blocks = nn.Sequential(*map(_block, [depth, *channels], channels))
        self.dropout = nn.Dropout(dropout)
        pixels = (height >> halvings) * (width >> halvings)
        self.head = nn.Linear(channels[-1] * pixels, outputs)

    def forward(self, values: Tensor) -> Tensor:
        """Logits `(batch, outputs)` of pictures, flat or not."""
        values = self.blocks(as_pictures(values, self.shape))
        logits: Tensor = self.head(self.dropout(values.flatten(1)))
        return logits


def _block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),  # the normalisation has a bias
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
