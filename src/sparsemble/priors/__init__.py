"""Priors over weights: Gaussian, Laplace, group sparse, and sums of them."""

from sparsemble.priors.gaussian import Gaussian
from sparsemble.priors.group_sparse import GroupSparse
from sparsemble.priors.laplace import Laplace
from sparsemble.priors.prior import BoundPrior, Prior
from sparsemble.priors.sums import AnyPrior, NoPrior, SumPrior

__all__ = [
    "AnyPrior",
    "BoundPrior",
    "Gaussian",
    "GroupSparse",
    "Laplace",
    "NoPrior",
    "Prior",
    "SumPrior",
]
