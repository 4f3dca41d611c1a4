"""Sparse structured ensembles: many small networks for the price of one.

>>> import sparsemble
>>> train, test = sparsemble.digits()
>>> recipe = sparsemble.load_recipe("digits", {"chain.epochs": 20, "chain.interval": 20})
>>> network = sparsemble.feedforward(64, [256, 128], 10)
>>> learned = sparsemble.learn(network, train, recipe)
>>> learned.ensemble.cost.parameters_ratio < 1.2
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsemble.data import (
        Corpus,
        Dataset,
        Scaling,
        as_dataset,
        digits,
        grammar,
        mnist,
        ptb,
        read_corpus,
    )
    from sparsemble.ensemble import Ensemble, LanguageEnsemble
    from sparsemble.errors import DivergedError, InputError, SparsembleError
    from sparsemble.layouts import LanguageModel, feedforward, feedforward_layout, language_layout
    from sparsemble.members import Member, compact
    from sparsemble.recipes import Recipe, load_recipe
    from sparsemble.runs import Learned, learn
    from sparsemble.stages import draw_samples, prune, retrain

_HOME = {
    "Corpus": "data",
    "Dataset": "data",
    "DivergedError": "errors",
    "Ensemble": "ensemble",
    "InputError": "errors",
    "LanguageEnsemble": "ensemble",
    "LanguageModel": "layouts",
    "Learned": "runs",
    "Member": "members",
    "Recipe": "recipes",
    "Scaling": "data",
    "SparsembleError": "errors",
    "as_dataset": "data",
    "compact": "members",
    "digits": "data",
    "draw_samples": "stages",
    "feedforward": "layouts",
    "feedforward_layout": "layouts",
    "grammar": "data",
    "language_layout": "layouts",
    "learn": "runs",
    "load_recipe": "recipes",
    "mnist": "data",
    "prune": "stages",
    "ptb": "data",
    "read_corpus": "data",
    "retrain": "stages",
}

_PACKAGES = (
    "data",
    "ensemble",
    "errors",
    "layouts",
    "members",
    "priors",
    "recipes",
    "samplers",
    "stages",
    "structure",
)

__all__ = [
    "Corpus",
    "Dataset",
    "DivergedError",
    "Ensemble",
    "InputError",
    "LanguageEnsemble",
    "LanguageModel",
    "Learned",
    "Member",
    "Recipe",
    "Scaling",
    "SparsembleError",
    "as_dataset",
    "compact",
    "digits",
    "draw_samples",
    "feedforward",
    "feedforward_layout",
    "grammar",
    "language_layout",
    "learn",
    "load_recipe",
    "mnist",
    "prune",
    "ptb",
    "read_corpus",
    "retrain",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `sparsemble --help` must not load PyTorch."""
    if name in _PACKAGES:
        return import_module(f"sparsemble.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'sparsemble' has no attribute {name!r}")
    return getattr(import_module(f"sparsemble.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
