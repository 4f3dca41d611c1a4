"""How classes are laid over an example: one for all of it, or one for each of its positions.

Whatever of classification depends on that is asked of `Labels`. Here is the usual kind, a class an
example; `positions` has the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch.nn.functional as F
from torch import Tensor

from sparsemble.modes import is_captured

Statistics = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""What is measured of every prediction `(count, classes)` and its class `(count,)`."""


class Labels(ABC):
    """Where the classes of examples are, among targets and among a network's outputs.

    Outputs and predictions may have members before the examples.
    """

    @abstractmethod
    def counted(self, targets: Tensor) -> Tensor:
        """The classes that count, one after the other."""

    @abstractmethod
    def renamed(self, targets: Tensor, indices: Tensor) -> Tensor:
        """The targets with class `k` called `indices[k]`."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy of what counts, of every member."""

    @abstractmethod
    def taught_part(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Of a prediction what others should learn: what counts."""

    @abstractmethod
    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """Mean cross-entropy with such a part of a prediction, of every member."""

    @abstractmethod
    def probabilities(self, outputs: Tensor) -> Tensor:
        """Of the classes, which are last: `(…, classes)`."""

    @abstractmethod
    def statistics(
        self, measured: Statistics, prediction: Tensor, targets: Tensor
    ) -> dict[str, Tensor]:
        """What is measured, of every example."""

    @abstractmethod
    def figures(self, means: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What was measured on average, of the means of such statistics."""

    @abstractmethod
    def of_examples(self, values: Tensor) -> Tensor:
        """A number for every example, of those for each of its classes."""


class ExampleLabels(Labels):
    """A class an example: targets `(examples,)`, outputs `(…, examples, classes)`."""

    def counted(self, targets: Tensor) -> Tensor:
        """All."""
        return targets

    def renamed(self, targets: Tensor, indices: Tensor) -> Tensor:
        """Looked up."""
        return indices[targets]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over examples."""
        if outputs.ndim == 2:
            return F.cross_entropy(outputs, targets)
        wanted = targets.expand(outputs.shape[:2])
        return F.cross_entropy(outputs.transpose(1, 2), wanted, reduction="none").mean(1)

    def taught_part(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """All of it."""
        return prediction

    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """The mean over examples."""
        loss: Tensor = -(prediction * outputs.log_softmax(-1)).sum(-1).mean(-1)
        return loss

    def probabilities(self, outputs: Tensor) -> Tensor:
        """A stack computes outputs with the examples innermost; along that order a softmax is ten
        times as fast."""
        if is_captured():
            return outputs.softmax(-1)
        return outputs.transpose(-1, -2).softmax(-2).transpose(-1, -2)

    def statistics(
        self, measured: Statistics, prediction: Tensor, targets: Tensor
    ) -> dict[str, Tensor]:
        """As they are."""
        return measured(prediction, targets)

    def figures(self, means: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """As they are."""
        return means

    def of_examples(self, values: Tensor) -> Tensor:
        """As they are."""
        return values
