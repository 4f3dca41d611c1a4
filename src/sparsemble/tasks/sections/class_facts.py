"""How far classifiers can be trusted: calibration, confusions, and the examples they doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sparsemble.data import Dataset
from sparsemble.pages.images import image_side
from sparsemble.tables.encoding import TableEncoding
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
    features: tuple[tuple[str, str | float], ...]


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


def class_facts(
    probabilities: Tensor, data: Dataset, columns: TableEncoding | None = None
) -> ClassFacts:
    """From the members' probabilities on a data set, `(members, examples, classes)`.

    `columns` are those of the table that it was made of, if it was.
    """
    shown = _Shown(data, columns)
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
        _most(doubt.epistemic, doubt, probabilities, data, shown),
        _most(doubt.total, doubt, probabilities, data, shown),
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
    doubt: Tensor, both: Uncertainty, probabilities: Tensor, data: Dataset, shown: _Shown
) -> tuple[Doubted, ...]:
    """The examples with the largest doubt, most first; none if it is the same for all."""
    if float(doubt.max() - doubt.min()) < ALIKE:
        return ()
    mean = probabilities.mean(0)
    labels = probabilities.argmax(-1)
    names = data.class_names or ()
    found = []
    for index in doubt.argsort(descending=True, stable=True)[:DOUBTED].tolist():
        votes = torch.bincount(labels[:, index], minlength=len(names))
        order = votes.argsort(descending=True, stable=True).tolist()
        found.append(
            Doubted(
                index,
                names[int(data.targets[index])],
                names[int(mean[index].argmax())],
                float(mean[index].max()),
                float(both.total[index]),
                float(both.epistemic[index]),
                tuple((names[k], int(votes[k])) for k in order if votes[k]),
                shown.image(index),
                shown.features(index),
            )
        )
    return tuple(found)


class _Shown:
    """Examples as people look at them: images, features, or columns of a table.

    Of several inputs nothing is shown.
    """

    def __init__(self, data: Dataset, columns: TableEncoding | None) -> None:
        self._columns = columns
        self._inputs = data.inputs if isinstance(data.inputs, Tensor) else None
        self._names = data.feature_names
        if self._inputs is None:
            return
        self._side = image_side(self._inputs[0].shape)
        self._low, self._high = float(self._inputs.min()), float(self._inputs.max())
        if self._side is None:
            flat = self._inputs.flatten(1).double()
            self._mean, self._spread = flat.mean(0), flat.std(0, correction=0).clamp_min(1e-12)

    def image(self, index: int) -> np.ndarray | None:
        """As bytes, the data's smallest value black and its largest white."""
        if self._inputs is None or self._side is None:
            return None
        example, low, high = self._inputs[index], self._low, self._high
        shown = (example.double().view(self._side) - low) * (255 / ((high - low) or 1.0))
        bytes_: np.ndarray = shown.round().byte().numpy()
        return bytes_

    def features(self, index: int) -> tuple[tuple[str, str | float], ...]:
        """Those that stand out most from what is usual; none of an image."""
        if self._inputs is None or self._side is not None:
            return ()
        own = self._inputs[index].flatten().double()
        away = ((own - self._mean) / self._spread).abs()
        if self._columns is not None:
            return self._of_columns(own, away, self._columns)
        names = self._names or tuple(f"feature {k}" for k in range(1, len(own) + 1))
        chosen = sorted(away.argsort(descending=True, stable=True)[:_FEATURES].tolist())
        return tuple((names[k], float(own[k])) for k in chosen)

    def _of_columns(
        self, own: Tensor, away: Tensor, columns: TableEncoding
    ) -> tuple[tuple[str, str | float], ...]:
        """As they stand in the table; a column stands out as its input does that does most."""
        widths = [len(column.names) for column in columns.columns]
        most = torch.stack([part.max() for part in away.split(widths)])
        chosen = sorted(most.argsort(descending=True, stable=True)[:_FEATURES].tolist())
        parts = own.split(widths)
        return tuple(
            (columns.columns[k].name, columns.columns[k].in_words(parts[k].tolist()))
            for k in chosen
        )
