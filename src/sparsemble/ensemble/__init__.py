"""The ensemble: members that predict together, its costs and its metrics."""

from sparsemble.ensemble.base import BaseEnsemble, EnsembleCost
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.language import LanguageEnsemble, TextScore
from sparsemble.ensemble.metrics import Metrics, score
from sparsemble.ensemble.uncertainty import Uncertainty, uncertainty

__all__ = [
    "BaseEnsemble",
    "Ensemble",
    "EnsembleCost",
    "LanguageEnsemble",
    "Metrics",
    "TextScore",
    "Uncertainty",
    "score",
    "uncertainty",
]
