"""What every prior offers.

A prior `p(θ) ∝ exp(−rate·R₁(θ))` enters the mean loss `L = U/N` as `penalty·R₁(θ)` with
`penalty = rate/N`. **`penalty`** is the paper's λ and what settings hold; **`rate`** is the
coefficient in the prior's own density. Biases have no prior.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from sparsemble.errors import InputError
from sparsemble.settings import NotNegative, Settings
from sparsemble.structure import Layout


class BoundPrior(ABC):
    """A prior on the weights of one network (or of a stack of members)."""

    @abstractmethod
    def value(self) -> Tensor:
        """`−log p(θ)/N` up to a constant: the term it adds to the mean loss."""

    @abstractmethod
    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        """Add the gradient of `value` to `gradients` in place, in closed form."""

    def shrink(self, step: float) -> None:
        """Move the weights to `argmin ‖θ' − θ‖²/2 + step·value(θ')`, in place: a proximal step.

        Unlike steps along the gradient it can take weights to exactly zero, and leaves them there.
        """
        raise _without_shrink(self)

    def at_zero(self, *, temperature: float, num_data: int, step: float) -> dict[str, Tensor]:
        """Which groups of every family it holds near zero; nothing where it knows no groups.

        Args:
            temperature: Of the sampler.
            num_data: How many examples the loss stands for.
            step: How far the prior's gradient moves a weight each time that the prior acts.
        """
        return {}

    def idle(self, *, temperature: float, num_data: int, step: float) -> dict[str, Tensor]:
        """Those of them that nothing would miss: they are small beside the family's others, too."""
        return {}


def share_at_zero(at_zero: Mapping[str, Tensor]) -> float:
    """The share of all groups; NaN if there are none."""
    if not at_zero:
        return math.nan
    return float(torch.cat([own.flatten() for own in at_zero.values()]).float().mean())


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
        """Attach to a network's weights.

        Args:
            layout: What the parameters are; `layout.weights` names those that have a prior.
            parameters: The tensors by name; they change in place between calls.
            sizes: The groups' original dimensions, for a network that was made smaller.
            batch_dims: How many leading dimensions of the tensors count members.
        """

    @property
    def group_penalty(self) -> float:
        """λ on the norms of groups; 0 if the prior knows none."""
        return 0.0


class StrengthPrior(Prior):
    """A prior with one strength."""

    penalty: NotNegative
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


class ElementwisePrior(StrengthPrior):
    """A prior under which every weight is independent of the others."""

    @staticmethod
    @abstractmethod
    def term(weight: Tensor) -> Tensor:
        """What the weights of one tensor add to `R₁`."""

    @staticmethod
    @abstractmethod
    def slopes(weights: list[Tensor]) -> list[Tensor]:
        """The gradient of `term` for each tensor."""

    def shrink(self, weights: list[Tensor], amount: float) -> None:
        """The proximal step of `amount·term`, in place."""
        raise _without_shrink(self)

    def bind(self, layout: Layout, parameters: Mapping[str, Tensor], **_: Any) -> BoundPrior:
        """Attach to the layout's weights."""
        return _BoundElementwise(self, {name: parameters[name] for name in layout.weights})


class _BoundElementwise(BoundPrior):
    def __init__(self, prior: ElementwisePrior, weights: dict[str, Tensor]) -> None:
        self.prior = prior
        self.weights = weights

    def value(self) -> Tensor:
        terms = [self.prior.term(weight) for weight in self.weights.values()]
        return torch.stack(terms).sum() * self.prior.penalty

    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        slopes = self.prior.slopes(list(self.weights.values()))
        targets = [gradients[name] for name in self.weights]
        torch._foreach_add_(targets, slopes, alpha=self.prior.penalty)

    def shrink(self, step: float) -> None:
        with torch.no_grad():
            self.prior.shrink(list(self.weights.values()), step * self.prior.penalty)


def _without_shrink(prior: Prior | BoundPrior) -> InputError:
    return InputError(
        f"{type(prior).__name__} has no proximal step (shrink): take chain.prior_step = 'gradient'"
    )
