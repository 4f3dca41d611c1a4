"""Dropout of words: the network reads `<unk>` in their place, and still predicts the next word.

Blank noising of a language model's inputs (Xie et al. 2017): it acts as smoothing does in n-gram
models. With `whole` all occurrences of a word go together, which is the dropout of rows of the
embedding (Gal & Ghahramani 2016, Merity et al. 2018), but that such a row is read as that of
`<unk>` instead of 0, as a text to predict may have it, and that the others are not enlarged.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from sparsemble.augmentations.augmentation import Augmentation, Share
from sparsemble.errors import InputError


class WordDropout(Augmentation):
    """Words replaced by one that stands for any.

    >>> WordDropout(share=0.0, unknown=1)(torch.tensor([[4], [2]])).tolist()
    [[4], [2]]
    """

    kind: Literal["words"] = "words"
    share: Share = 0.1
    """Probability that a word is dropped."""
    unknown: Annotated[int, Field(ge=0)] | None = None
    """Index of the word read in its place; by default that of `<unk>`."""
    whole: bool = False
    """Drop a word everywhere in a batch or nowhere."""

    def for_text(self, words: int, unknown: int | None) -> WordDropout:
        """With the text's own `<unk>`, unless settings name another word."""
        if self.unknown is not None:
            unknown = self.unknown
        if unknown is None:
            raise InputError(
                "WordDropout: the text has no <unk> to read in place of a dropped word; make a "
                "vocabulary with <unk> (by a threshold of 2, a smaller size or by writing <unk> in "
                "the training text), or set unknown to the index of another word"
            )
        if unknown >= words:
            raise InputError(
                f"WordDropout: unknown = {unknown}, but the text has {words} different words, "
                f"0 to {words - 1}"
            )
        return self.model_copy(update={"unknown": unknown})

    def __call__(self, inputs: Tensor) -> Tensor:
        """What is left of the words."""
        if inputs.dtype != torch.int64:
            raise InputError(
                f"WordDropout is for words of a text, int64 indices, not for inputs of "
                f"{inputs.dtype}: numbers take InputDropout"
            )
        if self.unknown is None:
            raise InputError(
                "WordDropout does not know the index of <unk>: set unknown, or call "
                "task.augmentation(...) with the task of the text"
            )
        if self.whole:
            # A draw for every word up to the last that occurs: cheaper than to find out which do.
            dropped = self._drawn(torch.Size([int(inputs.max()) + 1]), inputs.device)[inputs]
        else:
            dropped = self._drawn(inputs.shape, inputs.device)
        return inputs.masked_fill(dropped, self.unknown)

    def _drawn(self, shape: torch.Size, device: torch.device) -> Tensor:
        return torch.rand(shape, device=device) < self.share
