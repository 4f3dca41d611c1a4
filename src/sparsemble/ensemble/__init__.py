"""The ensemble: members that predict together, its costs and its metrics."""

from sparsemble.ensemble.ensemble import Ensemble, EnsembleCost
from sparsemble.ensemble.metrics import Metrics, score
from sparsemble.ensemble.uncertainty import Uncertainty, uncertainty

__all__ = ["Ensemble", "EnsembleCost", "Metrics", "Uncertainty", "score", "uncertainty"]
