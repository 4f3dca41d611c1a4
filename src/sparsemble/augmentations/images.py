"""Small random warps of images: every example turned, enlarged, sheared and shifted on its own.

A pixel of the result is read, by bilinear interpolation, where the inverse map puts it; beyond the
edge lies the nearest pixel of the edge. The weights of an interpolation add up to 1, so a warp of
scaled images is the scaled warp of the images wherever all pixels are scaled alike; zeros beyond
the edge would be grey, not background, where the scaling moves the background away from 0.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from sparsemble.augmentations.augmentation import Augmentation, Strength, check_numbers
from sparsemble.errors import InputError

_Size = Annotated[int, Field(ge=1)]


class Warp(Augmentation):
    """An affine map for every image, each of its five numbers uniform within ± its setting.

    Inputs are `(n, h, w)`, `(n, c, h, w)` or flat, `(n, c·h·w)`. Flat ones are one square channel
    unless `shape` says otherwise.

    >>> Warp()(torch.rand(100, 784)).shape
    torch.Size([100, 784])
    """

    kind: Literal["warp"] = "warp"
    rotation: Annotated[float, Field(ge=0, le=180)] = 8.0
    """Largest rotation, in degrees."""
    scale: Annotated[float, Field(ge=0, lt=1)] = 0.08
    """Largest change of size, as a share of it."""
    shear: Strength = 0.1
    """Largest slant: how far a column leans, in pixels for each pixel of its height."""
    shift: Strength = 1.0
    """Largest shift in each direction, in pixels."""
    shape: tuple[_Size, _Size] | None = None
    """Height and width, where the inputs do not tell."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Every image warped."""
        check_numbers(self, inputs)
        images = self._images(inputs)
        largest = (math.radians(self.rotation), self.scale, self.shear, self.shift, self.shift)
        draws = inputs.new_empty(len(largest), len(inputs)).uniform_(-1, 1)
        angle, growth, shear, right, down = draws * inputs.new_tensor(largest).unsqueeze(1)
        return warped(images, angle, 1 + growth, shear, right, down).reshape(inputs.shape)

    def _images(self, inputs: Tensor) -> Tensor:
        """The inputs as `(n, c, h, w)`."""
        sizes = tuple(inputs.shape)
        if inputs.ndim in (3, 4):
            if self.shape is not None and self.shape != sizes[-2:]:
                raise InputError(f"shape = {self.shape} of a warp, but the inputs are {sizes}")
            return inputs if inputs.ndim == 4 else inputs.unsqueeze(1)
        if inputs.ndim != 2:
            raise InputError(
                f"a warp takes images (n, h, w), (n, c, h, w) or flat ones (n, c·h·w), not {sizes}"
            )
        shape = self.shape or (max(math.isqrt(sizes[1]), 1),) * 2
        channels, rest = divmod(sizes[1], math.prod(shape))
        if rest or (self.shape is None and channels != 1):
            wrong = "are no square image" if self.shape is None else f"hold no images of {shape}"
            raise InputError(
                f"inputs of {sizes[1]} numbers {wrong}: give the warp shape = (height, width)"
            )
        return inputs.reshape(len(inputs), channels, *shape)


def warped(
    images: Tensor, angle: Tensor, size: Tensor, shear: Tensor, right: Tensor, down: Tensor
) -> Tensor:
    """Images `(n, c, h, w)`, shifted, then mapped about their centre; each by numbers of its own.

    Args:
        images: Floats.
        angle: Rotation, anticlockwise, in radians.
        size: How many times as large.
        shear: Pixels to the right for every pixel further down, before the rotation.
        right: Shift in pixels.
        down: The same.
    """
    count, _, height, width = images.shape
    pixels, unit = _pixels(height, width, images.dtype, images.device)
    cos, sin = angle.cos() / size, angle.sin() / size
    inverse = torch.stack([cos - shear * sin, -sin - shear * cos, -right, sin, cos, -down], dim=1)
    # All grids by one product with the pixels: a product for each image, as in F.affine_grid, takes
    # several times as long as the sampling itself.
    sources = (inverse.view(count, 2, 3) * unit).view(-1, 3) @ pixels
    grid = sources.view(count, 2, height, width).permute(0, 2, 3, 1)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


@cache
def _pixels(
    height: int, width: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Rows x, y, 1 of all pixels, from the centre; a pixel in units of `F.grid_sample`."""
    y = torch.arange(height, dtype=torch.float64) - (height - 1) / 2
    x = torch.arange(width, dtype=torch.float64) - (width - 1) / 2
    rows = torch.broadcast_tensors(x, y.unsqueeze(1), torch.ones(()))
    unit = torch.tensor([[2 / width], [2 / height]], dtype=torch.float64)
    return torch.stack(rows).view(3, -1).to(device, dtype), unit.to(device, dtype)
