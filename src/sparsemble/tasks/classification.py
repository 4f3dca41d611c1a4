"""Classification: one of several classes, predicted by the mean of the members' probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from torch import Tensor, nn

from sparsemble.data import Arguments, Batches, Dataset, Inputs, as_dataset
from sparsemble.data.dataset import About
from sparsemble.data.opening import can_be_read_again
from sparsemble.data.rows import Rows, is_number, read_rows
from sparsemble.data.targets import IGNORED, as_targets, check_labels
from sparsemble.errors import InputError
from sparsemble.pages.blocks import Section
from sparsemble.settings import Names
from sparsemble.tasks.example_training import ExampleTraining
from sparsemble.tasks.examples import ExampleTask
from sparsemble.tasks.labels import ExampleLabels, Labels
from sparsemble.tasks.positions import PositionLabels, are_classes_first
from sparsemble.tasks.scoring import Score
from sparsemble.tasks.task import Evaluation, Metric, Predictor, Training
from sparsemble.tasks.trying import outputs_of
from sparsemble.tasks.uncertainty import (
    Uncertainty,
    entropies,
    exported_probabilities,
    records_of_probabilities,
)
from sparsemble.tasks.views import View, share, view_of_probabilities, votes

BINS = 15
"""Of confidence, for calibration."""
_TINY = torch.finfo(torch.float32).tiny


class Classification(ExampleTask):
    """Cross-entropy; members' probabilities are averaged, never their logits (Eq. 1).

    >>> Classification(class_names=("cat", "dog")).sizes[1]
    2
    """

    kind: Literal["classification"] = "classification"
    class_names: Names | None = None
    """What the classes are called; found in the data unless given."""
    num_classes: int | None = None
    """How many there are, where they have no names."""
    ignore: Annotated[int, Field(lt=0)] = IGNORED
    """Of tokens or pixels: the class of those that do not count."""
    classes_first: bool | None = None
    """Of tokens or pixels: do outputs have their classes before the positions, rather than last?
    Found by their shape unless given."""
    target_dims: SkipJsonSchema[int] = 0
    """Dimensions of an example's targets: 0, of tokens 1, of pixels 2; found in the data."""

    unless_default: ClassVar[tuple[str, ...]] = (
        *ExampleTask.unless_default,
        "ignore",
        "classes_first",
        "target_dims",
    )
    noun: ClassVar[str] = "classifiers"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("error", "Error %", ".2%"),
        Metric("nll", "NLL", ".4f"),
        Metric("ece", "Calibration error", ".4f"),
        Metric("brier", "Brier score", ".4f", shown=False),
    )

    @classmethod
    def accepts(cls, data: Any) -> bool:
        """A `Dataset` with classes, and whatever no other task claims."""
        return not isinstance(data, Dataset) or data.class_names is not None

    @property
    def sizes(self) -> tuple[int, int]:
        """Features and classes."""
        count = len(self.class_names) if self.class_names is not None else self.num_classes
        return torch.Size(self.input_shape or (0,)).numel(), count or 0

    @property
    def names(self) -> tuple[str, ...]:
        """What the classes are called, be it by their numbers."""
        return self.class_names or tuple(map(str, range(self.sizes[1])))

    # Targets

    def dataset(self, inputs: Any, targets: Any, about: About, source: str) -> Dataset:
        """Class indices, or names of classes."""
        if about.numeric:
            raise InputError(
                f"{source}: has numbers, not classes; to predict those ask for task=Regression()"
            )
        known = about.class_names if about.class_names is not None else self.class_names
        return as_dataset(
            inputs,
            targets,
            class_names=known,
            num_classes=self.num_classes if known is None else None,
            feature_names=about.feature_names,
            scaling=about.scaling,
            ignore=self.ignore,
            source=source,
        )

    def checked_targets(self, targets: Any, source: str) -> Tensor:
        """Class indices of a batch."""
        indices = as_targets(targets, self.class_names, source)
        check_labels(indices, self.sizes[1], source, self.ignore)
        return indices

    @property
    def is_per_example(self) -> bool:
        """Has an example one class, rather than one for each of its positions?"""
        return self.target_dims == 0

    @property
    def labels(self) -> Labels:
        """Where the classes of examples are."""
        if self.is_per_example:
            return ExampleLabels()
        return PositionLabels(self.target_dims, bool(self.classes_first), self.ignore)

    def completed(self, data: Dataset, outputs: int | None) -> Self:
        """With the classes of the data."""
        names = data.class_names or ()
        if outputs is not None and self.sizes[1] not in (0, outputs):
            raise InputError(f"{self.sizes[1]} classes, but the network's last layer has {outputs}")
        if outputs is not None and len(names) != outputs:
            if self.class_names is None and names == _unnamed(len(names)):
                if len(names) > outputs:
                    raise InputError(
                        f"the labels go up to {len(names) - 1}, so there are {len(names)} classes, "
                        f"but the network's last layer has {outputs}: give it one for each "
                        "class, or, to predict numbers, say task=Regression()"
                    )
                check_labels(data.targets, outputs, "the data", self.ignore)
                names = _unnamed(outputs)  # the highest classes just do not occur
            else:
                raise InputError(
                    f"the data has {len(names)} classes, the network's last layer {outputs}"
                )
        update = {"class_names": names, "num_classes": len(names)}
        return self.model_copy(update=update)._for_targets(data.targets)

    def _for_targets(self, targets: Tensor) -> Self:
        return self.model_copy(update={"target_dims": targets.ndim - 1})

    def for_batches(self, batches: Batches) -> Self:
        """With what a loader's first batch shows."""
        _, targets = next(batches.epoch(0))
        return super().for_batches(batches)._for_targets(targets)

    def for_network(self, network: nn.Module, training: Training) -> Self:
        """With the place of the classes among its outputs, where targets have positions."""
        task = super().for_network(network, training)
        if training.task.is_per_example or not isinstance(training, ExampleTraining):
            return task
        inputs, targets = training.as_given()
        weight = next(network.parameters())
        if task.input_parts is not None and not isinstance(inputs, Arguments):
            inputs = Arguments((inputs,))
        outputs = outputs_of(network, inputs.to(weight.device).to(weight.dtype))
        first = are_classes_first(outputs.shape, targets.shape, self.classes_first)
        return task.model_copy(update={"classes_first": first})

    def check(self, network: nn.Module, example: Any) -> None:
        """Pass one example through the network; that of positions has been looked at before."""
        if self.is_per_example:
            super().check(network, example)

    def for_outputs(self, outputs: int | None) -> Self:
        """A loader's classes are as many as the network's outputs."""
        if outputs is None and self.sizes[1] == 0:
            raise InputError("a data loader's classes are not known: give Classification its names")
        if outputs is not None and self.sizes[1] not in (0, outputs):
            raise InputError(f"{self.sizes[1]} classes, but the network's last layer has {outputs}")
        return self.model_copy(update={"num_classes": outputs or self.sizes[1]})

    def known_targets(self, data: Dataset, source: str) -> Tensor:
        """Labels as indices of the classes learned, by name where both sides have names."""
        if data.targets.ndim - 1 != self.target_dims:
            raise InputError(
                f"{source}: targets of shape {tuple(data.targets.shape)}, the ensemble was learned "
                f"with {self.target_dims + 1} dimensions"
            )
        own, known = data.class_names or (), self.class_names
        strange = [name for name in own if known is None or name not in known]
        if known is None or (strange and own == _unnamed(len(own))):
            check_labels(data.targets, self.sizes[1], source, self.ignore)
            return data.targets
        if strange:
            raise InputError(
                f"{source}: the data has a class {strange[0]!r}, the ensemble {', '.join(known)}"
            )
        indices = torch.tensor([known.index(name) for name in own])
        return self.labels.renamed(data.targets, indices)

    def for_labels_in(self, path: Path) -> Self:
        """Classes whose names are numbers are meant by name if all labels of a file are names.

        That is only seen in all of them. Other names cannot be taken for indices, nor can those
        that are the indices.
        """
        known = self.class_names or ()
        if all(not is_number(name) or float(name) == k for k, name in enumerate(known)):
            return self
        if not can_be_read_again(path):
            raise InputError(
                f"{path}: classes are called {known[0]}, {known[1]}, …, and whether labels are "
                "such names or indices only all of them show: name a file in the place of a pipe"
            )
        labels = (rows.labels for rows in read_rows(path, self.targets_in_files))
        if all(own is None or set(own.astype(str)) <= set(known) for own in labels):
            return self
        return self.model_copy(update={"class_names": None, "num_classes": len(known)})

    def labelled(self, inputs: Inputs, rows: Rows, source: str) -> Dataset:
        """Labels of a file: names of classes, or their indices."""
        known, labels = self.class_names, rows.labels
        assert labels is not None
        wanted: Any = labels.astype(str)
        if known is None or not set(wanted) <= set(known):
            try:
                wanted = labels.astype("float")  # indices, whether numbers or written as text
            except ValueError:
                strange = next(str(name) for name in labels if str(name) not in (known or ()))
                raise InputError(
                    f"{source}: the label {strange!r} is not a class of the ensemble "
                    f"({', '.join(known or ()) or 'indices'})"
                ) from None
        return as_dataset(
            inputs,
            wanted,
            num_classes=self.sizes[1],
            class_names=known,
            feature_names=self.feature_names,
            scaling=self.scaling,
            source=source,
        )

    # Predictions

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy, over examples or over the positions that count."""
        return self.labels.loss(outputs, targets)

    def weight(self, targets: Tensor) -> float:
        """The examples, or the positions that count."""
        return float(self.labels.counted(targets).numel())

    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """Cross-entropy with the predicted probabilities."""
        return self.labels.taught_loss(outputs, prediction)

    def taught_part(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Probabilities, of positions that do not count none."""
        return self.labels.taught_part(prediction, targets)

    def guess(self, batches: Batches) -> float:
        """Every class equally probable."""
        return math.log(self.sizes[1])

    def evidence(self, outputs: Tensor, targets: Tensor | None = None) -> Tensor:
        """Probabilities, `(…, classes)`."""
        return self.labels.probabilities(outputs)

    def mix(self, evidence: Tensor) -> Tensor:
        """The mean of the probabilities."""
        return evidence.mean(0)

    def probabilities(self, prediction: Tensor) -> Tensor:
        """The prediction is made of them."""
        return prediction

    def decide(self, prediction: Tensor) -> Tensor:
        """The most probable class."""
        return prediction.argmax(-1)

    def uncertainty(self, evidence: Tensor) -> Uncertainty:
        """Entropy, and the mutual information between class and member."""
        return entropies(evidence)

    def exported(self, evidence: Tensor, *, members: bool = False) -> dict[str, Tensor]:
        """Mean probabilities, entropy and mutual information; each member's probabilities."""
        return exported_probabilities(self.mix(evidence), evidence, members=members)

    # Metrics

    def statistics(self, prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Errors, losses, and by bins of confidence what is right less what is sure.

        Of positions the sums over an example's, and how many they are.
        """
        return self.labels.statistics(_measured, prediction, targets)

    def figures(self, means: Mapping[str, Tensor]) -> dict[str, float]:
        """The calibration error is the sum of the bins' gaps."""
        found = self.labels.figures(means)
        return super().figures({**found, "ece": found["ece"].abs().sum()})

    def diversity(self, evidence: Tensor) -> Tensor:
        """The probability that two different members give an example different labels."""
        members = len(evidence)
        if members < 2:
            return evidence.new_zeros(evidence.shape[1])
        votes = F.one_hot(evidence.argmax(-1), evidence.shape[-1]).sum(0).double()
        differ: Tensor = 1 - (votes * (votes - 1)).sum(-1) / (members * (members - 1))
        return self.labels.of_examples(differ)

    def diversity_text(self, diversity: float, where: str) -> str:
        """As a share of the examples."""
        return f"two members differ on {100 * diversity:.2f} % of the {where}"

    def too_alike(self, score: Score) -> bool:
        """Members should differ on a good part of what they get wrong."""
        return score.diversity < 0.2 * score.of_a_member("error")

    def margin(self, own: Score, other: Score) -> float:
        """Two standard errors of a difference, as if measured on different examples."""
        spread = sum(max(p * (1 - p), 0) for p in (own["error"], other["error"]))
        return 2 * math.sqrt(spread / max(own.count, 1))

    def marginal(self, training: Any, targets: Tensor) -> Tensor | None:
        """Shares of the classes, each counted once more than it occurs."""
        if not isinstance(training, Dataset):
            return None
        known = self.labels.counted(training.targets)
        counts = torch.bincount(known, minlength=self.sizes[1]).double() + 1
        return (counts / counts.sum()).expand(1, *targets.shape, -1)

    # Files and reports

    def rows(self, evidence: Tensor) -> list[dict[str, Any]]:
        """Class, uncertainty, and every class's probability; of positions the classes."""
        probabilities, doubt = self.mix(evidence), self.uncertainty(evidence)
        if not self.is_per_example:
            labels = self.decide(probabilities).tolist()
            return [{"prediction": self._named(own)} for own in labels]
        return records_of_probabilities(self.names, probabilities, doubt)

    def _named(self, labels: Any) -> Any:
        """Class indices in lists as names."""
        return (
            [self._named(own) for own in labels] if isinstance(labels, list) else self.names[labels]
        )

    def views(self, evidence: Tensor) -> list[View]:
        """The most probable class, and bars of the probabilities."""
        if not self.is_per_example:
            return super().views(evidence)
        return [view_of_probabilities(self.names, own) for own in self.mix(evidence)]

    def agreement(self, evidence: Tensor) -> list[str]:
        """Which classes the members vote for, and how probably two of them differ."""
        if not self.is_per_example:
            return super().agreement(evidence)
        labels, differ = evidence.argmax(-1).t().tolist(), self.diversity(evidence).tolist()
        return [
            votes([self.names[label] for label in own], "say")
            + (f"; two of them differ with a probability of {share(much)}" if much else "")
            for own, much in zip(labels, differ, strict=True)
        ]

    def sections(self, ensemble: Predictor, evaluation: Evaluation, seed: int) -> Iterator[Section]:
        """Calibration, confusions, the most uncertain examples."""
        from sparsemble.tasks.sections.classification import sections

        return sections(self, ensemble, evaluation)


def _unnamed(count: int) -> tuple[str, ...]:
    """What classes are called that were given no names."""
    return tuple(map(str, range(count)))


def _measured(prediction: Tensor, targets: Tensor) -> dict[str, Tensor]:
    wide = prediction.double()
    confidence, label = wide.max(-1)
    correct = (label == targets).double()
    picked = wide.gather(1, targets.unsqueeze(1)).squeeze(1)
    place = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    return {
        "error": 1 - correct,
        "nll": -picked.clamp_min(_TINY).log(),
        "brier": (wide - F.one_hot(targets, wide.shape[-1])).square().sum(-1),
        "ece": F.one_hot(place, BINS) * (correct - confidence).unsqueeze(1),
    }
