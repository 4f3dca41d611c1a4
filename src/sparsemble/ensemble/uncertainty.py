"""Uncertainty of a prediction and its two parts.

The predictive entropy `H[mean_m p_m]` is the total; the mutual information between label and
member, `H[mean_m p_m] − mean_m H[p_m]`, is the part the members disagree about.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Uncertainty:
    """In nats, one number an example."""

    entropy: Tensor
    mutual_information: Tensor


def uncertainty(probabilities: Tensor) -> Uncertainty:
    """Uncertainty from the members' probabilities, `(members, examples, classes)`."""
    total = _entropy(probabilities.mean(0))
    own = _entropy(probabilities).mean(0)
    return Uncertainty(total, (total - own).clamp_min(0))


def _entropy(probabilities: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(probabilities)
    return entropy.sum(-1)
