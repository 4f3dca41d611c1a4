"""Ensembles: mixing members, evaluating, comparing, costs and budgets, saving and loading."""

from sparsemble.ensemble.budget import Budget
from sparsemble.ensemble.comparison import Difference, compare
from sparsemble.ensemble.cost import EnsembleCost
from sparsemble.ensemble.ensemble import Ensemble

__all__ = ["Budget", "Difference", "Ensemble", "EnsembleCost", "compare"]
