"""Ensembles: mixing members, evaluating, costs, saving and loading."""

from sparsemble.ensemble.cost import EnsembleCost
from sparsemble.ensemble.ensemble import Ensemble

__all__ = ["Ensemble", "EnsembleCost"]
