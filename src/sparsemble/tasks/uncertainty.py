"""Uncertainty of a prediction and its two parts.

*Epistemic* is what the members disagree about, and more data would settle; *aleatoric* is what they
agree cannot be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparsemble.modes import is_captured


@dataclass(frozen=True)
class Uncertainty:
    """One number per example: nats of entropy for classes, variance for numbers."""

    total: Tensor
    epistemic: Tensor

    @property
    def aleatoric(self) -> Tensor:
        """What is left."""
        return (self.total - self.epistemic).clamp_min(0)


def entropies(probabilities: Tensor) -> Uncertainty:
    """From the members' probabilities, `(members, examples, classes)`.

    The total is the predictive entropy `H[mean_m p_m]`; its epistemic part is the mutual
    information between class and member, `H[mean_m p_m] − mean_m H[p_m]`.
    """
    total = _entropy(probabilities.mean(0))
    own = _entropy(probabilities).mean(0)
    return Uncertainty(total, (total - own).clamp_min(0))


def exported_probabilities(
    mean: Tensor, probabilities: Tensor, *, members: bool
) -> dict[str, Tensor]:
    """What a deployed ensemble returns of probabilities.

    Args:
        mean: The members' prediction together.
        probabilities: Of every member, `(members, …, classes)`.
        members: Also those?
    """
    doubt = entropies(probabilities)
    named = {
        "probabilities": mean,
        "entropy": doubt.total,
        "mutual_information": doubt.epistemic,
    }
    return named | ({"member_probabilities": probabilities} if members else {})


def records_of_probabilities(
    names: Sequence[str], mean: Tensor, doubt: Uncertainty, most: int | None = None
) -> list[dict[str, Any]]:
    """One record per example: the most probable class or word, uncertainty, probabilities.

    Args:
        names: What the classes are called.
        mean: Their probabilities, `(examples, classes)`.
        doubt: How uncertain those are.
        most: How many classes a record holds, the most probable first; by default all, in order.
    """
    all_of_them = torch.arange(len(names), device=mean.device).expand(mean.shape)
    shown = mean.topk(min(most, len(names))).indices if most else all_of_them
    columns = (mean.argmax(-1), doubt.total, doubt.epistemic, shown, mean.gather(-1, shown))
    return [
        {
            "prediction": names[best],
            "entropy": total,
            "mutual_information": information,
            "probabilities": {names[k]: value for k, value in zip(places, values, strict=True)},
        }
        for best, total, information, places, values in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _entropy(probabilities: Tensor) -> Tensor:
    if is_captured():  # few steps, which elsewhere take as long as a small product each
        logs = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
        return -(probabilities * logs).sum(-1)
    entropy: Tensor = torch.special.entr(probabilities)
    return entropy.sum(-1)
