"""How good predictions are: error, NLL, Brier score, calibration, disagreement."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 15
"""Of confidence, for calibration."""


@dataclass(frozen=True)
class Metrics:
    """Figures of one ensemble on one data set; `member_*` are means over its members."""

    error: float
    nll: float
    brier: float
    ece: float
    disagreement: float
    member_error: float
    member_nll: float
    member_ece: float


def score(probabilities: Tensor, targets: Tensor) -> Metrics:
    """Score the members' probabilities, `(members, examples, classes)`, and their mean."""
    mean = probabilities.mean(0)
    return Metrics(
        error=error_rate(mean, targets),
        nll=negative_log_likelihood(mean, targets),
        brier=brier_score(mean, targets),
        ece=calibration_error(mean, targets),
        disagreement=disagreement(probabilities),
        member_error=_mean([error_rate(p, targets) for p in probabilities]),
        member_nll=_mean([negative_log_likelihood(p, targets) for p in probabilities]),
        member_ece=_mean([calibration_error(p, targets) for p in probabilities]),
    )


def error_rate(probabilities: Tensor, targets: Tensor) -> float:
    """Share of examples whose most probable class is wrong."""
    return float((probabilities.argmax(-1) != targets).double().mean())


def negative_log_likelihood(probabilities: Tensor, targets: Tensor) -> float:
    """Mean of `−log p(target)`, with probabilities kept above the smallest normal float."""
    picked = probabilities.gather(1, targets.unsqueeze(1)).double()
    return float(-picked.clamp_min(torch.finfo(torch.float32).tiny).log().mean())


def brier_score(probabilities: Tensor, targets: Tensor) -> float:
    """Mean squared distance between the probabilities and the one-hot target."""
    wanted = torch.nn.functional.one_hot(targets, probabilities.shape[-1])
    return float((probabilities.double() - wanted).square().sum(-1).mean())


def calibration_error(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over equal bins."""
    _, confidence, correct = reliability(probabilities, targets, bins)
    return float((correct - confidence).abs().sum())


def reliability(
    probabilities: Tensor, targets: Tensor, bins: int = BINS
) -> tuple[Tensor, Tensor, Tensor]:
    """What equal bins of confidence hold of all examples, of confidence, and of right answers.

    Each is a share of the number of examples, `(bins,)`.
    """
    confidence, label = probabilities.double().max(-1)
    correct = (label == targets).double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    empty = torch.zeros(bins, dtype=torch.float64)
    count, sure, right = (
        empty.index_add(0, place, values) / len(targets)
        for values in (torch.ones_like(correct), confidence, correct)
    )
    return count, sure, right


def disagreement(probabilities: Tensor) -> float:
    """Probability that two different members give different labels to an example."""
    members = len(probabilities)
    if members < 2:
        return 0.0
    labels = probabilities.argmax(-1)
    votes = torch.nn.functional.one_hot(labels, probabilities.shape[-1]).sum(0).double()
    agreeing = (votes * (votes - 1)).sum(-1) / (members * (members - 1))
    return float((1 - agreeing).mean())


def perplexity(log_probabilities: Tensor) -> float:
    """Of the mean of members that gave the words of a text these, `(members, words)`."""
    mean = log_probabilities.logsumexp(0) - math.log(len(log_probabilities))
    return math.exp(-float(mean.mean()))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
