"""Predictions are numbers: what is not finite is an error that names the row, and no answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from sparsemble.errors import NotFiniteError

if TYPE_CHECKING:
    from sparsemble.tasks.task import Task


def finite(evidence: Tensor, task: Task) -> Tensor:
    """The members' evidence, `(members, examples, …)`, if it is what a prediction can be made of.

    Args:
        evidence: For all examples.
        task: Says which numbers can be used.
    """
    # A finite sum has finite terms only, and is far sooner computed.
    if math.isfinite(evidence.sum().item()):
        return evidence
    usable = task.is_usable(evidence).transpose(0, 1).flatten(1).all(1)
    if not bool(usable.all()):
        raise NotFiniteError(int((~usable).nonzero()[0]))
    return evidence
