"""A text in windows: parallel rows of one long stream, read a few steps at a time.

The stream is cut into `batch_size` rows of equal length, side by side; the step that follows a
window goes on where it ended, so a recurrent network can carry its state along. The order is part
of the text: it is the same in every epoch and every variant.

Gradients end where a window begins, by default at the same words in every epoch. With `jitter` the
cuts lie elsewhere in each (Merity et al. 2018): all of them move together, and each by itself,

    c_k = ⌊k·w̄⌋ + s + δ_k,    |s|, |δ_k| ≤ j = ⌊jitter·w̄⌋,    w̄ the mean window,

so that their number stays, windows are of at least ⌊w̄⌋ − 2j steps, at most ⌈w̄⌉ + 2j, and with a
jitter of a quarter nearly any word can come first. Only the first window of all is never shortened:
a loss that begins low would seem to rise. A window's loss grows with its length by being a sum: the
learning rate needs no correction, as it does where the loss is a mean.

The loss of a window is summed over its steps and averaged over the batch, so the N of the
posterior, `num_data`, is the number of windows in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from sparsemble.data.vocabulary import check_text
from sparsemble.errors import InputError
from sparsemble.seeds import derive

MOST_JITTER = 0.25
"""With it windows are between half and one and a half times as long as they are on average."""


class TextBatches:
    """Windows of a text in order: inputs and, one token later, targets, both (window, batch).

    Tokens at the end that do not fill another column of the rows are left out; the last window may
    be shorter.

    Args:
        tokens: The text.
        batch_size: Rows it is cut into.
        window: Steps of a window.
        jitter: How far cuts are moved at random, as a share of a window.
        seed: Of where they are moved to.

    >>> import torch
    >>> batches = TextBatches(torch.arange(10), batch_size=2, window=3)
    >>> inputs, targets = next(batches.epoch(0))
    >>> inputs.T
    tensor([[0, 1, 2],
            [5, 6, 7]])
    >>> targets.T
    tensor([[1, 2, 3],
            [6, 7, 8]])
    """

    def __init__(
        self, tokens: Tensor, batch_size: int, window: int, *, jitter: float = 0.0, seed: int = 0
    ) -> None:
        check_text(tokens)
        if batch_size < 1 or window < 1:
            raise InputError(f"batch size {batch_size} and window {window} must be 1 or more")
        if not 0 <= jitter <= MOST_JITTER:
            raise InputError(f"jitter = {jitter}: must be at least 0 and at most {MOST_JITTER}")
        length = len(tokens) // batch_size
        if length < 2:
            largest = len(tokens) // 2
            remedy = f"use {largest} at most" if largest else "give a longer text"
            raise InputError(
                f"a batch size of {batch_size} is too large for a text of {len(tokens)} tokens: "
                f"every row needs 2; {remedy}"
            )
        self.batch_size = batch_size
        self.window = window
        self.length = length
        # Transposed in memory once, so that every window is a contiguous view.
        self._columns = tokens[: length * batch_size].reshape(batch_size, length).t().contiguous()
        self.steps = -(-(length - 1) // window)
        self.mean_window = (length - 1) / self.steps
        """Steps of a window on average: the last one may be shorter."""
        self.num_data = batch_size * self.steps

        self._farthest = int(jitter * self.mean_window)
        self._seed = seed

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The windows from position `start` on; `number` and `variant` only move jittered cuts."""
        cuts = self._cuts(number, variant)
        for first, last in pairwise(cuts[start:]):
            yield self._columns[first:last], self._columns[first + 1 : last + 1]

    def _cuts(self, number: int, variant: int) -> list[int]:
        """Where windows begin, and where the last one ends."""
        end = self.length - 1
        if self._farthest == 0:
            return [*range(0, end, self.window), end]
        generator = torch.Generator().manual_seed(derive(self._seed, "windows", number, variant))
        low, high = -self._farthest, self._farthest + 1
        together = torch.randint(low, high, (), generator=generator)
        moved = together + torch.randint(low, high, (self.steps - 1,), generator=generator)
        moved[:1].clamp_(min=0)
        even = torch.arange(1, self.steps) * end // self.steps
        return [0, *(even + moved).tolist(), end]
