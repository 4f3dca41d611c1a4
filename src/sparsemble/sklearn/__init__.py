"""Estimators for scikit-learn: ensembles in pipelines, grid searches and cross-validation."""

from sparsemble.errors import InputError

try:
    import sklearn  # noqa: F401
except ImportError:
    raise InputError("scikit-learn is missing: pip install 'sparsemble[sklearn]'") from None

from sparsemble.sklearn.classifier import SparseEnsembleClassifier
from sparsemble.sklearn.regressor import SparseEnsembleRegressor

__all__ = ["SparseEnsembleClassifier", "SparseEnsembleRegressor"]
