"""How far classifiers can be trusted: calibration, confusions, and the examples they doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sparsemble.data import Dataset
from sparsemble.pages.images import image_side
from sparsemble.tasks.classification import BINS
from sparsemble.tasks.uncertainty import Uncertainty, entropies

DOUBTED = 10
"""Examples shown for each kind of uncertainty."""
ALIKE = 5e-3
"""Uncertainties that differ by less, in nats, are no reason to show one example before another."""
_FEATURES = 8


@dataclass(frozen=True)
class Bin:
    """Predictions whose confidence lies in one of equal bins; means are NaN where there are none.

    `share` is the part of all predictions.
    """

    share: float
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Doubted:
    """An example the ensemble is unsure about; `votes` counts the members for each class."""

    index: int
    target: str
    prediction: str
    probability: float
    entropy: float
    mutual_information: float
    votes: tuple[tuple[str, int], ...]
    image: np.ndarray | None
    features: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ClassFacts:
    """What the evaluation set shows; `confusion[true][predicted]` counts examples.

    Of doubted examples there are none where all are alike in that.
    """

    class_names: tuple[str, ...]
    examples: int
    ensemble_bins: tuple[Bin, ...]
    member_bins: tuple[Bin, ...]
    ensemble_ece: float
    member_ece: float
    confusion: tuple[tuple[int, ...], ...]
    by_information: tuple[Doubted, ...]
    by_entropy: tuple[Doubted, ...]


def class_facts(probabilities: Tensor, data: Dataset) -> ClassFacts:
    """From the members' probabilities on a data set, `(members, examples, classes)`."""
    mean = probabilities.mean(0)
    targets, names = data.targets, data.class_names or ()
    doubt = entropies(probabilities)
    bins = reliability_bins(mean, targets)
    own = [calibration_error(reliability_bins(p, targets)) for p in probabilities]
    return ClassFacts(
        names,
        len(data),
        bins,
        reliability_bins(probabilities.flatten(0, 1), targets.repeat(len(probabilities))),
        calibration_error(bins),
        sum(own) / len(own),
        confusion(mean.argmax(-1), targets, len(names)),
        _most(doubt.epistemic, doubt, probabilities, data),
        _most(doubt.total, doubt, probabilities, data),
    )


def reliability_bins(probabilities: Tensor, targets: Tensor, bins: int = BINS) -> tuple[Bin, ...]:
    """Mean confidence and accuracy in equal bins of confidence, as the calibration error uses."""
    confidence, label = probabilities.double().max(-1)
    correct = (label == targets).double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    empty = torch.zeros(bins, dtype=torch.float64)
    count, sure, right = (
        empty.index_add(0, place, values)
        for values in (torch.ones_like(correct), confidence, correct)
    )
    return tuple(
        Bin(float(share), float(mean), float(accuracy))
        for share, mean, accuracy in zip(
            count / len(targets), sure / count, right / count, strict=True
        )
    )


def calibration_error(bins: Sequence[Bin]) -> float:
    """The mean gap between confidence and accuracy."""
    return sum(b.share * abs(b.accuracy - b.confidence) for b in bins if b.share > 0)


def confusion(predicted: Tensor, targets: Tensor, classes: int) -> tuple[tuple[int, ...], ...]:
    """How many examples of each class (rows) were taken for each class (columns)."""
    counts = torch.bincount(targets * classes + predicted, minlength=classes * classes)
    return tuple(map(tuple, counts.view(classes, classes).tolist()))


def _most(
    doubt: Tensor, both: Uncertainty, probabilities: Tensor, data: Dataset
) -> tuple[Doubted, ...]:
    """The examples with the largest doubt, most first; none if it is the same for all."""
    if float(doubt.max() - doubt.min()) < ALIKE:
        return ()
    mean = probabilities.mean(0)
    labels = probabilities.argmax(-1)
    names = data.class_names or ()
    low, high = float(data.inputs.min()), float(data.inputs.max())
    usual = _usual(data)
    found = []
    for index in doubt.argsort(descending=True, stable=True)[:DOUBTED].tolist():
        votes = torch.bincount(labels[:, index], minlength=len(names))
        order = votes.argsort(descending=True, stable=True).tolist()
        example = data.inputs[index]
        found.append(
            Doubted(
                index,
                names[int(data.targets[index])],
                names[int(mean[index].argmax())],
                float(mean[index].max()),
                float(both.total[index]),
                float(both.epistemic[index]),
                tuple((names[k], int(votes[k])) for k in order if votes[k]),
                _image(example, low, high),
                _features(example, data, usual),
            )
        )
    return tuple(found)


def _image(example: Tensor, low: float, high: float) -> np.ndarray | None:
    """The example as bytes, the data's smallest value black and its largest white."""
    side = image_side(example.shape)
    if side is None:
        return None
    shown = (example.double().view(side) - low) * (255 / ((high - low) or 1.0))
    bytes_: np.ndarray = shown.round().byte().numpy()
    return bytes_


def _usual(data: Dataset) -> tuple[Tensor, Tensor] | None:
    """Mean and spread of every feature; images have none."""
    if image_side(data.inputs[0].shape) is not None:
        return None
    inputs = data.inputs.flatten(1).double()
    return inputs.mean(0), inputs.std(0, correction=0).clamp_min(1e-12)


def _features(
    example: Tensor, data: Dataset, usual: tuple[Tensor, Tensor] | None
) -> tuple[tuple[str, float], ...]:
    """The features that stand out most from what is usual; none of an image."""
    if usual is None:
        return ()
    own = example.flatten().double()
    away = ((own - usual[0]) / usual[1]).abs()
    names = data.feature_names or tuple(f"feature {k}" for k in range(1, len(own) + 1))
    chosen = sorted(away.argsort(descending=True, stable=True)[:_FEATURES].tolist())
    return tuple((names[k], float(own[k])) for k in chosen)
