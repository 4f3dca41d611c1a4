"""Augmentations: a batch's inputs perturbed anew every time it is trained on.

Warps of images, noise and dropout of numbers, dropout of words, several one after the other, and a
function of the user's own.
"""

from sparsemble.augmentations.augmentation import Augmentation, FunctionAugmentation
from sparsemble.augmentations.checking import checked
from sparsemble.augmentations.images import Warp, warped
from sparsemble.augmentations.several import AnyAugmentation, Several
from sparsemble.augmentations.tables import InputDropout, InputNoise
from sparsemble.augmentations.texts import WordDropout

__all__ = [
    "AnyAugmentation",
    "Augmentation",
    "FunctionAugmentation",
    "InputDropout",
    "InputNoise",
    "Several",
    "Warp",
    "WordDropout",
    "checked",
    "warped",
]
