"""A few examples, predicted by all members at once where a short timing found that quicker.

Programs computed together save calls, not arithmetic: with few examples that can be several times
quicker, with many it is slower. Which of the two holds depends on networks and machine, so it is
measured once for every size of a batch, to a factor of two. The two ways differ by rounding:
whatever has to give the same figures again, in another process or on another day, computes the
members one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sparsemble.ensemble.stopwatch import shortest_times
from sparsemble.members import Member, ProgramStack

MOST = 16
"""More examples than these are never computed together."""
_CALLS = 3
_TOLERATED = 100
"""Roundings by which outputs, beside the largest of them, may differ."""


class Few:
    """Members that can be called together, and when that is quicker.

    Args:
        members: Whose weights are as they will stay.
        before: The same with other weights, of which it is known already.
    """

    def __init__(self, members: Sequence[Member], before: Few | None = None) -> None:
        self._members = members
        self._stack: ProgramStack | None = None
        self._quicker: dict[int, bool] = {} if before is None else before._quicker

    @staticmethod
    def fits(members: Sequence[Member]) -> bool:
        """Are there several, of a kind that can be computed together?"""
        return len(members) > 1 and ProgramStack.fits(members)

    def is_quicker(self, inputs: Tensor, in_turn: Callable[[Tensor], Tensor]) -> bool:
        """Is it quicker to call them together with so many inputs?

        Args:
            inputs: Scaled.
            in_turn: Computes the same as a call, one member after the other.
        """
        if not 0 < len(inputs) <= MOST:
            return False
        size = len(inputs).bit_length()
        if size not in self._quicker:
            self._quicker[size] = _is_quicker(self, in_turn, inputs)
        return self._quicker[size]

    def __call__(self, inputs: Tensor) -> Tensor:
        """Outputs of every member, `(members, batch, …)`."""
        if self._stack is None:
            self._stack = ProgramStack(self._members)
        return self._stack(inputs)


def _is_quicker(
    together: Callable[[Tensor], Tensor], in_turn: Callable[[Tensor], Tensor], inputs: Tensor
) -> bool:
    """Does the first compute the same as the second, in less time?"""
    wanted = in_turn(inputs)
    try:
        found = together(inputs)
    except RuntimeError:  # an operation without a batched form, which one only finds by calling it
        return False
    largest = wanted.abs().max().clamp_min(1)
    limit = _TOLERATED * torch.finfo(wanted.dtype).eps * largest
    if not bool(((found - wanted).abs() <= limit).all()):
        return False
    at_once, one_by_one = shortest_times(
        lambda: together(inputs), lambda: in_turn(inputs), repeats=_CALLS
    )
    return at_once < one_by_one
