"""Ensembles: mixing members, evaluating, comparing, costs and budgets, saving and loading."""

from sparsemble.ensemble.budget import Budget
from sparsemble.ensemble.comparison import Difference, compare
from sparsemble.ensemble.cost import EnsembleCost
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.verdict import Verdict, judge

__all__ = ["Budget", "Difference", "Ensemble", "EnsembleCost", "Verdict", "compare", "judge"]
