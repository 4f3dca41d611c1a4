"""Several augmentations one after the other, and those a recipe can name, told apart by `kind`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor

from sparsemble.augmentations.augmentation import Augmentation, augmentation_of
from sparsemble.augmentations.images import Warp
from sparsemble.augmentations.tables import InputDropout, InputNoise
from sparsemble.augmentations.texts import WordDropout
from sparsemble.extensions import open_union

if TYPE_CHECKING:
    _Part = Augmentation
else:
    _Part = open_union(
        Augmentation, Warp, InputNoise, InputDropout, WordDropout, from_function=augmentation_of
    )


class Several(Augmentation):
    """Each perturbs what the one before it left.

    >>> Several(parts=(Warp(), InputDropout(share=0.2))).parts[1].share
    0.2
    """

    kind: Literal["several"] = "several"
    parts: tuple[_Part, ...]
    """Augmentations, each with its kind, in their order."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """The inputs after the last."""
        for part in self.parts:
            inputs = part(inputs)
        return inputs

    def for_text(self, words: int, unknown: int | None) -> Several:
        """Every part for the text."""
        parts = tuple(part.for_text(words, unknown) for part in self.parts)
        return self.model_copy(update={"parts": parts})


if TYPE_CHECKING:
    AnyAugmentation = Augmentation
else:
    AnyAugmentation = open_union(
        Augmentation,
        Warp,
        InputNoise,
        InputDropout,
        WordDropout,
        Several,
        from_function=augmentation_of,
    )
