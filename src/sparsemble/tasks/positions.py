"""Classes of positions: every token of a text, every pixel of a picture has one.

Targets are `(examples, time)` or `(examples, height, width)`. Outputs have the classes last, as
taggers do, `(examples, time, classes)`, or after the examples, as `nn.CrossEntropyLoss` takes
pictures, `(examples, classes, height, width)`. Which one it is shows in the shapes: one of them
has the targets' shape without the classes. If both have (as many classes as steps), the task must
say it. Positions whose target is the *ignored* number count nowhere: so padding is marked.

Positions of one example depend on each other. So statistics are sums over an example's positions,
and metrics their ratio to the number of positions that count: means over positions, in which an
example is the unit that is drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.tasks.labels import Labels, Statistics

_COUNTED = "positions"
"""The statistic that counts an example's positions."""


@dataclass(frozen=True)
class PositionLabels(Labels):
    """A class for every position of an example.

    Args:
        dims: Dimensions of an example's positions: of tokens 1, of pixels 2.
        classes_first: Have outputs their classes before the positions, rather than last?
        ignored: The target of positions that do not count.
    """

    dims: int
    classes_first: bool
    ignored: int

    def counted(self, targets: Tensor) -> Tensor:
        """All but those to be ignored."""
        return targets[targets != self.ignored]

    def renamed(self, targets: Tensor, indices: Tensor) -> Tensor:
        """Looked up, where positions count."""
        counted = targets != self.ignored
        return torch.where(counted, indices[targets.where(counted, 0)], self.ignored)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the positions that count."""
        logits = self._classes_last(outputs)
        members = logits.shape[: logits.ndim - targets.ndim - 1]
        wanted = targets.expand(*members, *targets.shape)
        each = F.cross_entropy(
            logits.flatten(0, -2), wanted.flatten(), ignore_index=self.ignored, reduction="none"
        )
        counted = (targets != self.ignored).sum().clamp_min(1)
        return each.view(*members, -1).sum(-1) / counted

    def taught_part(self, prediction: Tensor, targets: Tensor) -> Tensor:
        """Of positions that do not count nothing."""
        return prediction * (targets != self.ignored).unsqueeze(-1)

    def taught_loss(self, outputs: Tensor, prediction: Tensor) -> Tensor:
        """The mean over the positions that count, whose probabilities add up to 1."""
        logs = self._classes_last(outputs).log_softmax(-1)
        taught = (prediction * logs).flatten(logs.ndim - self.dims - 2).sum(-1)
        return -taught / prediction.sum().clamp_min(1)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Of every position, `(…, examples, positions…, classes)`."""
        return self._classes_last(outputs).softmax(-1)

    def statistics(
        self, measured: Statistics, prediction: Tensor, targets: Tensor
    ) -> dict[str, Tensor]:
        """Sums over the positions that count, and how many they are."""
        if prediction.shape[:-1] != targets.shape:
            wanted, own = tuple(prediction.shape[1:-1]), tuple(targets.shape[1:])
            raise InputError(
                f"the answers of an example have shape {own}, and the network predicts for {wanted}"
            )
        counted = targets != self.ignored
        owner = counted.nonzero()[:, 0]
        sums = {
            key: values.new_zeros(len(counted), *values.shape[1:]).index_add_(0, owner, values)
            for key, values in measured(prediction[counted], targets[counted]).items()
        }
        return {**sums, _COUNTED: counted.flatten(1).sum(1).double()}

    def figures(self, means: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Means over positions, from the examples' means of sums."""
        counted = means[_COUNTED].clamp_min(torch.finfo(torch.float64).tiny)
        return {key: mean / counted for key, mean in means.items() if key != _COUNTED}

    def of_examples(self, values: Tensor) -> Tensor:
        """The mean over positions."""
        return values.flatten(1).mean(1)

    def _classes_last(self, outputs: Tensor) -> Tensor:
        return outputs.movedim(-1 - self.dims, -1) if self.classes_first else outputs


def are_classes_first(outputs: Sequence[int], targets: Sequence[int], given: bool | None) -> bool:
    """Do the classes stand after the examples, rather than last?

    Args:
        outputs: The shape of a network's outputs for a batch.
        targets: The shape of its targets.
        given: What the user says of it, if anything.

    >>> are_classes_first((8, 3, 20, 30), (8, 20, 30), None)
    True
    >>> are_classes_first((8, 20, 3), (8, 20), None)
    False
    """
    out, wanted = tuple(outputs), tuple(targets)
    last, first = out[:-1] == wanted, out[:1] + out[2:] == wanted
    if len(out) != len(wanted) + 1 or not (last or first):
        sizes = ", ".join(map(str, wanted[1:]))
        raise InputError(
            f"the targets of an example are classes of shape ({sizes}): for {wanted[0]} examples "
            f"the network must return ({wanted[0]}, {sizes}, classes) or "
            f"({wanted[0]}, classes, {sizes}), not {out}"
        )
    if given is None and last and first:
        raise InputError(
            f"in outputs of shape {out} for targets of shape {wanted} classes cannot be told from "
            "positions: say Classification(classes_first=True) or False"
        )
    if given is not None and not (first if given else last):
        raise InputError(
            f"classes_first = {given}: outputs of shape {out} for targets of shape {wanted} have "
            "their classes elsewhere; leave it out"
        )
    return first if given is None else given
