"""A text in windows: parallel rows of one long stream, read a few steps at a time.

The stream is cut into `batch_size` rows of equal length, side by side; the step that follows a
window goes on where it ended, so a recurrent network can carry its state along. The order is part
of the text: it is the same in every epoch and every variant.

The loss of a window is summed over its steps and averaged over the batch, so the N of the
posterior, `num_data`, is the number of windows in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from sparsemble.data.vocabulary import check_text
from sparsemble.errors import InputError


class TextBatches:
    """Windows of a text in order: inputs and, one token later, targets, both (window, batch).

    Tokens at the end that do not fill another column of the rows are left out; the last window may
    be shorter.

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

    def __init__(self, tokens: Tensor, batch_size: int, window: int) -> None:
        check_text(tokens)
        if batch_size < 1 or window < 1:
            raise InputError(f"batch size {batch_size} and window {window} must be 1 or more")
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

    def epoch(
        self, number: int, start: int = 0, variant: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The windows from position `start` on; neither `number` nor `variant` changes them."""
        for first in range(start * self.window, self.length - 1, self.window):
            last = min(first + self.window, self.length - 1)
            yield self._columns[first:last], self._columns[first + 1 : last + 1]
