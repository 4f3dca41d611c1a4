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

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsemble.errors import InputError

COUNTED = "positions"
"""The statistic that counts an example's positions."""


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


def mean_loss(logits: Tensor, targets: Tensor, ignored: int) -> Tensor:
    """Mean cross-entropy of the positions that count, of every member.

    Args:
        logits: `(…, examples, positions…, classes)`, the members before them.
        targets: `(examples, positions…)`.
        ignored: The target of positions that do not count.
    """
    members = logits.shape[: logits.ndim - targets.ndim - 1]
    wanted = targets.expand(*members, *targets.shape)
    each = F.cross_entropy(
        logits.flatten(0, -2), wanted.flatten(), ignore_index=ignored, reduction="none"
    )
    counted = (targets != ignored).sum().clamp_min(1)
    return each.view(*members, -1).sum(-1) / counted


def summed(each: Mapping[str, Tensor], counted: Tensor) -> dict[str, Tensor]:
    """Statistics of examples, of those of their positions.

    Args:
        each: Of every position that counts, `(counted, …)`.
        counted: Which count, `(examples, positions…)`.
    """
    owner = counted.nonzero()[:, 0]
    examples = len(counted)
    sums = {
        key: values.new_zeros(examples, *values.shape[1:]).index_add_(0, owner, values)
        for key, values in each.items()
    }
    return {**sums, COUNTED: counted.flatten(1).sum(1).double()}


def ratios(means: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Means over positions, from the examples' means of sums."""
    counted = means[COUNTED].clamp_min(torch.finfo(torch.float64).tiny)
    return {key: mean / counted for key, mean in means.items() if key != COUNTED}
