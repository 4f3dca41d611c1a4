"""What every augmentation offers: from a batch's inputs to perturbed ones of the same kind.

An augmentation regularises: the network sees every example a little differently each time, and the
same target. It acts only while weights are trained, never when an ensemble predicts.

All randomness comes from PyTorch's global generator, as that of dropout does. While a chain runs it
holds that generator: it seeds it, keeps its state in checkpoints and gives the caller's back. So
perturbations follow from the run's seed, and a resumed run repeats those of one that was never
stopped. Numbers drawn from elsewhere (NumPy, `random`) would not; `checked` refuses them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated

from pydantic import Field, computed_field
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.extensions import import_path
from sparsemble.settings import NotNegative, Settings

Share = Annotated[float, Field(ge=0, lt=1)]
"""A probability below 1."""
Strength = NotNegative
"""How much; 0 for not at all."""


class Augmentation(Settings, ABC):
    """A random perturbation of inputs."""

    @abstractmethod
    def __call__(self, inputs: Tensor) -> Tensor:
        """Perturbed inputs, of the same shape and dtype; the given ones are left as they are.

        Args:
            inputs: A batch as the network sees it: scaled numbers, one example for every index of
                the first dimension; of a text the words' indices, `(steps, streams)`.
        """

    def for_text(self, words: int, unknown: int | None) -> Augmentation:
        """The same for a text; only what puts words in the place of others needs to know it.

        Args:
            words: How many different ones the text has; its indices lie below.
            unknown: The index that stands for words which are not known, if one does.
        """
        return self


class FunctionAugmentation(Augmentation):
    """A plain function of the inputs."""

    function: Callable[[Tensor], Tensor] = Field(exclude=True)

    def __call__(self, inputs: Tensor) -> Tensor:
        """What the function makes of them."""
        return self.function(inputs)

    @computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def kind(self) -> str:
        """Where the function is found."""
        return import_path(self.function)


def augmentation_of(function: Callable[[Tensor], Tensor]) -> Augmentation:
    """A function as an augmentation."""
    return FunctionAugmentation(function=function)


def check_numbers(augmentation: Augmentation, inputs: Tensor) -> None:
    """Raise `InputError` if the inputs are words of a text, which cannot be more or less."""
    if not inputs.is_floating_point():
        raise InputError(
            f"{type(augmentation).__name__} is for scaled numbers, not for inputs of "
            f"{inputs.dtype}: words of a text take WordDropout"
        )
