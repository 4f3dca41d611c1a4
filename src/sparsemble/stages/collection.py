"""What of a chain becomes samples (Section 3.1, and beyond).

*Means*: the mean of the weights over every `interval` epochs after `burn_in`, the default.
*Thinned*: the iterates at the end of every interval, because samples far apart are less correlated.
*Backward*: the last `samples` iterates.
*Cycles*: the iterates at the end of every cycle of a cyclical schedule, where its rate is lowest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sparsemble.errors import InputError

Collection = Literal["means", "thinned", "backward", "cycles"]


def collection_steps(
    *,
    collection: Collection,
    epochs: int,
    burn_in: int,
    interval: int,
    samples: int | None,
    steps_per_epoch: int,
    cycles: Sequence[float] | None = None,
) -> tuple[int, ...]:
    """The numbers of the steps after which a sample is taken.

    `cycles` are the epochs after which a cycle of the schedule ends, if it has such.

    >>> points = collection_steps(collection="thinned", epochs=100, burn_in=10, interval=5,
    ...                           samples=None, steps_per_epoch=600)
    >>> len(points), points[0] // 600, points[-1] // 600
    (18, 15, 100)
    """
    if collection == "backward":
        return _backward(epochs, burn_in, samples, steps_per_epoch)
    if collection == "cycles":
        points = _ends(cycles, epochs, burn_in, samples or 1, steps_per_epoch)
    else:
        points = tuple(e * steps_per_epoch for e in range(burn_in + interval, epochs + 1, interval))
    if samples is not None:
        if len(points) < samples:
            raise InputError(
                f"samples = {samples}: {epochs} epochs with burn-in {burn_in} and interval "
                f"{interval} give only {len(points)}"
            )
        points = points[-samples:]
    if not points:
        raise InputError(
            f"epochs = {epochs} with burn-in {burn_in} and interval {interval} give no sample: "
            "make the chain longer, or these shorter"
        )
    return points


def _backward(
    epochs: int, burn_in: int, samples: int | None, steps_per_epoch: int
) -> tuple[int, ...]:
    """The last steps of the chain."""
    if samples is None:
        raise InputError("backward collection needs the number of samples")
    first = epochs * steps_per_epoch - samples + 1
    if first < 1 + burn_in * steps_per_epoch:
        raise InputError(
            f"samples = {samples}: a chain of {epochs} epochs with {steps_per_epoch} steps "
            f"each has fewer iterates after its burn-in of {burn_in}"
        )
    return tuple(range(first, epochs * steps_per_epoch + 1))


def _ends(
    cycles: Sequence[float] | None, epochs: int, burn_in: int, needed: int, steps_per_epoch: int
) -> tuple[int, ...]:
    """The last step of every cycle after the burn-in."""
    if cycles is None:
        raise InputError("collection = cycles needs a cyclical schedule")
    ends = (round(end * steps_per_epoch) for end in cycles if end > burn_in)
    points = tuple(dict.fromkeys(max(end, 1) for end in ends))
    if len(points) < needed:
        raise InputError(
            f"collection = cycles: {len(points)} cycles of the schedule end after the burn-in "
            f"of {burn_in} and within {epochs} epochs, {needed} are needed: shorten its "
            "period"
        )
    return points
