"""Noise on inputs and dropout of inputs: for tables, and for anything else that is numbers."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sparsemble.augmentations.augmentation import Augmentation, Share, Strength, check_numbers
from sparsemble.nets.dropout import drop


class InputNoise(Augmentation):
    """Gaussian noise, independent for every input of every example: `x + std·ξ`.

    For small noise this penalises the network's slope in its inputs (Bishop 1995).
    """

    kind: Literal["noise"] = "noise"
    std: Strength = 0.1
    """Standard deviation, in units of the scaled inputs: of standardised columns, in theirs."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """The inputs and noise."""
        check_numbers(self, inputs)
        return torch.randn_like(inputs).mul_(self.std).add_(inputs)


class InputDropout(Augmentation):
    """Dropout before the first layer: what `nn.Dropout` does to inputs.

    An input of an example is 0 with probability `share`, otherwise divided by `1 − share`, so that
    its mean stays. For a table this is the dropout of columns: each row loses columns of its own,
    and in standardised ones 0 is the mean.
    """

    kind: Literal["dropout"] = "dropout"
    share: Share = 0.2
    """Probability that an input is dropped."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """What is left of the inputs."""
        check_numbers(self, inputs)
        return drop(inputs, self.share)
