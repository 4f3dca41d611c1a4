"""What every prior offers.

A prior `p(θ) ∝ exp(−rate·R₁(θ))` enters the mean loss `L = U/N` as `penalty·R₁(θ)` with
`penalty = rate/N`. **`penalty`** is the paper's λ and what settings hold; **`rate`** is the
coefficient in the prior's own density. Biases have no prior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

from pydantic import Field
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.settings import Settings
from sparsemble.structure import Layout


class BoundPrior(ABC):
    """A prior on the weights of one network (or of a stack of members)."""

    @abstractmethod
    def value(self) -> Tensor:
        """`−log p(θ)/N` up to a constant: the term it adds to the mean loss."""

    @abstractmethod
    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        """Add the gradient of `value` to `gradients` in place, in closed form."""


class Prior(Settings, ABC):
    """A prior as a value; `bind` attaches it to a network's weights."""

    @abstractmethod
    def bind(
        self,
        layout: Layout,
        parameters: Mapping[str, Tensor],
        *,
        sizes: Mapping[str, int] | None = None,
        batch_dims: int = 0,
    ) -> BoundPrior:
        """Attach to `parameters`; `sizes` keeps the groups' original dimensions after compaction,
        `batch_dims` tells how many leading dimensions count members."""


class StrengthPrior(Prior):
    """A prior with one strength."""

    penalty: float = Field(ge=0, allow_inf_nan=False)
    """λ in the mean-loss scale: what the paper prints."""

    @classmethod
    def from_rate(cls, rate: float, *, num_data: int) -> Self:
        """The prior with density `∝ exp(−rate·R₁(θ))` for a data set of `num_data` examples."""
        if num_data < 1:
            raise InputError(f"num_data = {num_data}: a prior's rate needs the number of examples")
        return cls(penalty=rate / num_data)

    def rate(self, num_data: int) -> float:
        """The coefficient in the prior's own density: `N·λ`."""
        return self.penalty * num_data
