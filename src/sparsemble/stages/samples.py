"""What stage 1 gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """One draw from the posterior: the network's parameters after a step of a chain, or their mean
    over the interval that ends there."""

    chain: int
    step: int
    parameters: Mapping[str, Tensor]
