"""What both estimators share: their parameters, how they learn, predict, are saved and go on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import nn

from sparsemble.augmentations import Augmentation
from sparsemble.data import Dataset
from sparsemble.data.dataset import About
from sparsemble.ensemble import Budget, Ensemble
from sparsemble.errors import InputError
from sparsemble.learning import learn
from sparsemble.members import Versions, grown
from sparsemble.nets import feedforward
from sparsemble.recipes import Recipe
from sparsemble.settings import Count, Names, Settings
from sparsemble.sklearn.canonical import canonical_rows
from sparsemble.store import inside, read_json, write_json
from sparsemble.streams import borrowed_streams
from sparsemble.tasks import ExampleTask, Task

Factory = Callable[[int, int], nn.Module]
"""Makes a network of so many inputs and outputs."""

_FLOATS = (np.float64, np.float32)
_FILE = "estimator.json"


class Described(Settings):
    """What an ensemble does not say itself, beside it in a file."""

    of: str
    """Which ensemble that is."""
    n_features_in: Count
    feature_names_in: Names | None = None


class SparseEnsembleEstimator(BaseEstimator):  # type: ignore[misc]
    """An ensemble of small networks for the price of one, as an estimator."""

    _about: ClassVar[type[Described]] = Described
    _task: ClassVar[type[Task]]
    hidden_sizes: Sequence[int]
    network: Factory | None
    budget: Budget | None
    epochs: int | None
    augment: Augmentation | None
    recipe: Recipe | None
    warm_start: bool
    device: str | torch.device
    random_state: int | np.random.RandomState | None
    verbose: bool

    def _fit(
        self, inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray | None, task: ExampleTask
    ) -> None:
        """Learn from checked rows."""
        self._check_recipe(task)
        inputs, targets, weights = canonical_rows(inputs, targets, weights)
        names = getattr(self, "feature_names_in_", None)
        about = About(feature_names=None if names is None else list(map(str, names)))
        data: Dataset = task.scaled(task.dataset(inputs, targets, about, "X and y"))
        if weights is not None:
            data = data.weighed(weights)
        completed = task.training(data).task
        made: nn.Module | Callable[[], nn.Module] = partial(self._network, *completed.sizes)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.warm_start and hasattr(self, "ensemble_"):
            made = self._grown(completed, seed)
        learned = learn(
            made,
            data,
            self.recipe and self.recipe.model_copy(update={"seed": seed}),
            budget=self.budget,
            baseline=0,
            augment=self.augment,
            seed=seed,
            epochs=self.epochs,
            task=task,
            device=self.device,
            progress=bool(self.verbose),
        )
        self.recipe_ = learned.recipe
        self.candidates_ = learned.candidates
        self.ensemble_ = learned.ensemble

    def _network(self, inputs: int, outputs: int) -> nn.Module:
        """A fresh one."""
        if self.network is not None:
            return self.network(inputs, outputs)
        return feedforward(inputs, self.hidden_sizes, outputs)

    def _check_recipe(self, task: ExampleTask) -> None:
        """Settings that are given are a recipe, and of nothing else than is to be predicted."""
        if self.recipe is None:
            return
        if not isinstance(self.recipe, Recipe):
            raise InputError(f"recipe = {self.recipe!r}: load_recipe() makes one")
        theirs = self.recipe.task
        if theirs is None:
            return
        if type(theirs) is not type(task):
            raise InputError(f"recipe {self.recipe.name!r} is for {theirs.noun}, not {task.noun}")
        for name in sorted(theirs.model_fields_set):
            own, asked = getattr(task, name), getattr(theirs, name)
            if own != asked:
                raise InputError(
                    f"recipe {self.recipe.name!r} says task.{name} = {asked!r}, the estimator "
                    f"{own!r}: let both say the same"
                )

    def _grown(self, task: Task, seed: int) -> nn.Module:
        """A network that begins where the ensemble that is there ended."""
        with borrowed_streams(seed):
            fresh = task.prepared(self._network(*task.sizes))
        return grown(self.ensemble_[0], fresh)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def _checked(self, X: Any, y: Any, sample_weight: Any, **how: Any) -> tuple[Any, Any, Any]:
        """Training data as arrays."""
        X, y = validate_data(
            self,
            X,
            y,
            dtype=list(_FLOATS),
            allow_nd=self.network is not None,
            ensure_min_samples=2,
            **how,
        )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        return X, y, sample_weight

    def _asked(self, X: Any) -> tuple[np.ndarray, Ensemble]:
        """Rows to predict for as an array, and what predicts in their precision."""
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, dtype=list(_FLOATS), allow_nd=self.network is not None
        )
        return X, _in_double(self.ensemble_) if X.dtype == np.float64 else self.ensemble_

    def save(self, folder: str | Path) -> None:
        """Write what was learned into a folder, without pickle; `load` reads it back.

        Args:
            folder: Afterwards also an ensemble as `sparsemble.Ensemble.load` and the commands take
                it.
        """
        check_is_fitted(self)
        self.ensemble_.save(folder)
        described = self._about(of=_identity(Path(folder)), **self._described())
        write_json(inside(Path(folder), _FILE), described.model_dump(mode="json"))

    def _described(self) -> dict[str, Any]:
        """What an ensemble does not say itself, in JSON."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else names.tolist(),
        }

    @classmethod
    def load(cls, folder: str | Path, **parameters: Any) -> Self:
        """A fitted estimator from what `save` wrote, or from any saved ensemble or run folder.

        Args:
            folder: Where it is.
            parameters: Of the constructor, to `fit` anew: `hidden_sizes` and `warm_start`, say.
        """
        found = cls(**parameters)
        ensemble = Ensemble.load(folder)
        if not isinstance(ensemble.task, cls._task):
            raise InputError(f"the folder holds {ensemble.task.noun}, not {cls._task.noun}")
        file = inside(Path(folder), _FILE)
        described = cls._about.read_back(read_json(file), file) if file.is_file() else None
        if described is not None and described.of != _identity(Path(folder)):
            described = None  # of an ensemble that was there before
        found._remembers(ensemble, described)
        found.ensemble_ = ensemble.to(found.device)
        return found

    def _remembers(self, ensemble: Ensemble, described: Any) -> None:
        """Take what a folder says: the ensemble, and an `_about` if there is one."""
        width = ensemble.task.sizes[0]
        self.n_features_in_ = width if described is None else described.n_features_in
        if self.n_features_in_ < 1:
            raise InputError("the ensemble does not take rows of numbers, as estimators do")
        if getattr(ensemble.task, "columns", None) is not None:
            raise InputError(
                "the ensemble was learned from a table, whose columns it encodes itself: use "
                "Ensemble.load, which takes such tables"
            )
        own = None if described is None else described.feature_names_in
        names = own or getattr(ensemble.task, "feature_names", None)
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)


_DOUBLES: WeakKeyDictionary[Ensemble, tuple[Versions, Ensemble]] = WeakKeyDictionary()


def _in_double(ensemble: Ensemble) -> Ensemble:
    """The same ensemble in double precision, made anew when weights have changed."""
    known = _DOUBLES.get(ensemble)
    if known is None or not known[0].hold():
        known = _DOUBLES[ensemble] = Versions(ensemble), copy.deepcopy(ensemble).double()
    return known[1]


def _identity(folder: Path) -> str:
    """What tells a saved ensemble from others that were saved in its place."""
    return str(read_json(inside(folder, "manifest.json"))["tensors_sha256"])
