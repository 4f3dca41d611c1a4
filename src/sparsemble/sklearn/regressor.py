"""Numbers, predicted by a sparse ensemble, as scikit-learn has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, cast, overload

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from sparsemble.augmentations import Augmentation
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.errors import InputError
from sparsemble.recipes import Recipe
from sparsemble.sklearn.estimator import Described, Factory, SparseEnsembleEstimator
from sparsemble.tasks import Regression


class DescribedNumbers(Described):
    """Besides, whether there was one number per row."""

    flat: bool


class SparseEnsembleRegressor(RegressorMixin, SparseEnsembleEstimator):  # type: ignore[misc]
    """A regressor that mixes the normal laws of small networks, together as costly as one.

    Args:
        hidden_sizes: Units of the hidden layers that networks have before they are pruned.
        network: Makes other networks instead: a function of the number of inputs and of outputs.
        noise: One variance for all rows (`"learned"`), or a predicted one for each.
        budget: What predictions may cost; by default the FLOPs of one dense network.
        epochs: How long it learns at most; by default as long as is usual for so many rows.
        augment: How inputs are perturbed while it learns.
        recipe: Settings that are known, in the place of those three: `recipe_` of an earlier fit,
            say. No trials are needed then, and learning takes a fraction of the time.
        warm_start: Go on from what was learned before, by `fit` or from a folder (`load`).
        device: Where to compute.
        random_state: Everything random follows from it.
        verbose: Show progress.

    Attributes:
        ensemble_: The `Ensemble`: members, costs, uncertainty.
        recipe_: The settings that were found.
        candidates_: What was compared on the rows set aside.
    """

    _about = DescribedNumbers
    _task = Regression

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (128, 64),
        *,
        network: Factory | None = None,
        noise: Literal["learned", "predicted"] = "learned",
        budget: Budget | None = None,
        epochs: int | None = None,
        augment: Augmentation | None = None,
        recipe: Recipe | None = None,
        warm_start: bool = False,
        device: str | torch.device = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_sizes = hidden_sizes
        self.network = network
        self.noise = noise
        self.budget = budget
        self.epochs = epochs
        self.augment = augment
        self.recipe = recipe
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows of numbers and what is to be predicted for them.

        Args:
            X: `(rows, features)`, without missing values.
            y: A number for each row, or several.
            sample_weight: How much each row counts.
        """
        X, y, weights = self._checked(X, y, sample_weight, multi_output=True, y_numeric=True)
        if y.dtype.kind not in "biuf":
            raise InputError(
                f"y holds {str(y.flat[0])!r}: numbers are predicted; for classes take "
                "SparseEnsembleClassifier"
            )
        self._fit(X, y, weights, Regression(noise=self.noise))
        self._is_flat = y.ndim == 1
        return self

    @overload
    def predict(self, X: Any) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of what may come out for each row and, if asked, how far it may lie apart.

        Args:
            X: As for `fit`.
            return_std: Also give the standard deviation: noise, and what members disagree about.
        """
        rows, ensemble = self._asked(X)
        evidence = ensemble.evidence(rows)
        task = ensemble.task
        mean = self._shaped(task.decide(task.mix(evidence)).cpu().numpy())
        if not return_std:
            return mean
        return mean, self._shaped(task.uncertainty(evidence).total.sqrt().cpu().numpy())

    def _shaped(self, numbers: np.ndarray) -> np.ndarray:
        """One per row, where there was one per row to learn from."""
        return numbers.reshape(len(numbers)) if self._is_flat else numbers

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"flat": self._is_flat}

    def _remembers(self, ensemble: Ensemble, described: DescribedNumbers | None) -> None:
        super()._remembers(ensemble, described)
        self._is_flat = (
            len(cast(Regression, ensemble.task).names) == 1 if described is None else described.flat
        )
