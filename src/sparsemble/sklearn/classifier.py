"""Classes, predicted by a sparse ensemble, as scikit-learn has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self, cast

import numpy as np
import torch
from pydantic import Field
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from sparsemble.augmentations import Augmentation
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.recipes import Recipe
from sparsemble.sklearn.estimator import Described, Factory, SparseEnsembleEstimator
from sparsemble.tasks import Classification


class DescribedClasses(Described):
    """Besides, the classes as they were given."""

    classes: Annotated[tuple[bool | int | float | str, ...], Field(min_length=2)]
    dtype: Annotated[str, Field(pattern=r"^(object|[|<>][biuf](1|2|4|8|16)|[<>]U\d+)$")]
    """How NumPy writes what they are."""

    @property
    def array(self) -> np.ndarray:
        """The classes in order; how long texts are follows from them."""
        try:
            kind = str if "U" in self.dtype else np.dtype(self.dtype)
            found = np.array(self.classes, dtype=kind)
        except (OverflowError, TypeError, ValueError):
            found = None
        if found is None or len(set(found.tolist())) < len(found):
            raise CorruptFileError(f"these are not different classes of {self.dtype}")
        return found


class SparseEnsembleClassifier(ClassifierMixin, SparseEnsembleEstimator):  # type: ignore[misc]
    """A classifier that averages small networks, together as costly as one.

    Learning rate, prior, temperature, number of members and their sparsity find themselves on rows
    that it sets aside; nothing needs to be tuned. Inputs are read in single precision; for rows of
    `float64` all else is computed in double.

    Args:
        hidden_sizes: Units of the hidden layers that networks have before they are pruned.
        network: Makes other networks instead: a function of the number of inputs and of classes.
        budget: What predictions may cost; by default the FLOPs of one dense network.
        epochs: How long it learns at most; by default as long as is usual for so many rows.
        augment: How inputs are perturbed while it learns.
        recipe: Settings that are known, in the place of those three: `recipe_` of an earlier fit,
            say. No trials are needed then, and learning takes a fraction of the time.
        class_weight: How much classes count: `"balanced"`, or a dict by class.
        warm_start: Go on from what was learned before, by `fit` or from a folder (`load`).
        device: Where to compute.
        random_state: Everything random follows from it.
        verbose: Show progress.

    Attributes:
        classes_: What is predicted.
        ensemble_: The `Ensemble`: members, costs, uncertainty.
        recipe_: The settings that were found.
        candidates_: What was compared on the rows set aside.

    >>> from sklearn.datasets import load_iris
    >>> flowers, species = load_iris(return_X_y=True)
    >>> found = SparseEnsembleClassifier((8,), epochs=10, random_state=0).fit(flowers, species)
    >>> found.score(flowers, species) > 0.9, found.ensemble_.cost.flops_ratio <= 1
    (True, True)
    """

    _about = DescribedClasses
    _task = Classification

    def __init__(
        self,
        hidden_sizes: Sequence[int] = (128, 64),
        *,
        network: Factory | None = None,
        budget: Budget | None = None,
        epochs: int | None = None,
        augment: Augmentation | None = None,
        recipe: Recipe | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        warm_start: bool = False,
        device: str | torch.device = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_sizes = hidden_sizes
        self.network = network
        self.budget = budget
        self.epochs = epochs
        self.augment = augment
        self.recipe = recipe
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows of numbers and their classes.

        Args:
            X: `(rows, features)`, without missing values.
            y: A class for each row.
            sample_weight: How much each row counts.
        """
        X, y, weights = self._checked(X, y, sample_weight)
        check_classification_targets(y)
        classes, indices = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(
                f"y holds one class only, {str(classes[0])!r}: there is nothing to learn"
            )
        if self.class_weight is not None:
            balance = compute_sample_weight(self.class_weight, y)
            weights = balance if weights is None else weights * balance
        task = Classification(class_names=tuple(str(name) for name in classes))
        self._fit(X, indices, weights, task)
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, in the order of `classes_`.

        Args:
            X: As for `fit`.
        """
        rows, ensemble = self._asked(X)
        return ensemble.predict_proba(rows)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of every class's probability.

        Args:
            X: As for `fit`.
        """
        logs: np.ndarray = np.log(self.predict_proba(X))
        return logs

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Args:
            X: As for `fit`.
        """
        rows, ensemble = self._asked(X)
        answers: np.ndarray = self.classes_[ensemble.predict(rows)]
        return answers

    def _described(self) -> dict[str, Any]:
        kind = self.classes_.dtype
        described = "object" if kind.hasobject else kind.str
        return super()._described() | {"classes": self.classes_.tolist(), "dtype": described}

    def _remembers(self, ensemble: Ensemble, described: DescribedClasses | None) -> None:
        super()._remembers(ensemble, described)
        names = list(cast(Classification, ensemble.task).names)
        plain = list(range(len(names))) if names == [str(k) for k in range(len(names))] else names
        self.classes_ = np.array(plain) if described is None else described.array
        if len(self.classes_) != ensemble.task.sizes[1]:
            raise InputError(f"{len(self.classes_)} classes of {ensemble.task.sizes[1]} outputs")
