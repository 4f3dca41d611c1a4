"""Sums of priors, and the priors a recipe can name, told apart by `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, zeros

from sparsemble.extensions import open_union
from sparsemble.priors.gaussian import Gaussian
from sparsemble.priors.group_sparse import GroupSparse
from sparsemble.priors.laplace import Laplace
from sparsemble.priors.prior import BoundPrior, Prior
from sparsemble.structure import Layout

if TYPE_CHECKING:
    _Term = Prior
else:
    _Term = open_union(Prior, Gaussian, Laplace, GroupSparse)


class NoPrior(Prior):
    """A flat prior: nothing is added."""

    kind: Literal["none"] = "none"

    def bind(self, layout: Layout, parameters: Mapping[str, Tensor], **_: Any) -> BoundPrior:
        """Nothing to attach."""
        return BoundSum(())


class SumPrior(Prior):
    """A product of densities: penalties and gradients add.

    >>> SumPrior(terms=(Gaussian(penalty=1e-5), GroupSparse(penalty=2e-5))).terms[1].penalty
    2e-05
    """

    kind: Literal["sum"] = "sum"
    terms: tuple[_Term, ...]
    """Priors, each with its kind."""

    def bind(self, layout: Layout, parameters: Mapping[str, Tensor], **how: Any) -> BoundPrior:
        """Attach every term."""
        return BoundSum(tuple(term.bind(layout, parameters, **how) for term in self.terms))

    @property
    def group_penalty(self) -> float:
        """Penalties on the same norms add."""
        return sum(term.group_penalty for term in self.terms)


class BoundSum(BoundPrior):
    """Several priors on one network's weights."""

    def __init__(self, terms: tuple[BoundPrior, ...]) -> None:
        self.terms = terms

    def value(self) -> Tensor:
        """The sum of the terms."""
        return sum((term.value() for term in self.terms), zeros(()))

    def add_gradient(self, gradients: Mapping[str, Tensor]) -> None:
        """Add every term's gradient."""
        for term in self.terms:
            term.add_gradient(gradients)

    def shrink(self, step: float) -> None:
        """One term after the other: the joint map to first order in the step."""
        for term in self.terms:
            term.shrink(step)

    def at_zero(self, *, temperature: float, num_data: int, step: float) -> dict[str, Tensor]:
        """As the first term says that knows groups."""
        found = (
            term.at_zero(temperature=temperature, num_data=num_data, step=step)
            for term in self.terms
        )
        return next((groups for groups in found if groups), {})

    def idle(self, *, temperature: float, num_data: int, step: float) -> dict[str, Tensor]:
        """Likewise."""
        found = (
            term.idle(temperature=temperature, num_data=num_data, step=step) for term in self.terms
        )
        return next((groups for groups in found if groups), {})


if TYPE_CHECKING:
    AnyPrior = Prior
else:
    AnyPrior = open_union(Prior, NoPrior, Gaussian, Laplace, GroupSparse, SumPrior)
