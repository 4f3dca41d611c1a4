"""A text in memory as it is scored: so many positions at a time, in one stream or in several."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsemble.data import Text
from sparsemble.data.targets import IGNORED

SEGMENT = 256
"""Positions read at a time, over all streams."""


def segments(text: Text, first: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets `(steps, streams)`: every token is a target once.

    Args:
        text: And in how many streams it is read.
        first: The token before it.
    """
    tokens, streams = text.tokens, text.streams
    length = -(-len(tokens) // streams)
    padding = length * streams - len(tokens)
    targets = F.pad(tokens, (0, padding), value=IGNORED).view(streams, length).t()
    before = torch.cat([tokens.new_tensor([first]), tokens[:-1]])
    inputs = F.pad(before, (0, padding), value=first).view(streams, length).t()
    steps = max(1, SEGMENT // streams)
    yield from zip(inputs.split(steps), targets.split(steps), strict=True)
