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

_NAMES = {
    "data": (
        "Corpus",
        "Dataset",
        "Scaling",
        "as_dataset",
        "digits",
        "grammar",
        "mnist",
        "ptb",
        "read_corpus",
    ),
    "ensemble": ("Ensemble", "LanguageEnsemble"),
    "errors": ("DivergedError", "InputError", "SparsembleError"),
    "layouts": ("LanguageModel", "feedforward", "feedforward_layout", "language_layout"),
    "members": ("Member", "compact"),
    "recipes": ("Recipe", "load_recipe"),
    "runs": ("Learned", "learn"),
    "stages": ("draw_samples", "prune", "retrain"),
}
_HOME = {name: package for package, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)

if TYPE_CHECKING:  # the same again, for type checkers: they cannot follow `__getattr__`
    from sparsemble import cli as cli
    from sparsemble import data as data
    from sparsemble import ensemble as ensemble
    from sparsemble import errors as errors
    from sparsemble import experiments as experiments
    from sparsemble import layouts as layouts
    from sparsemble import members as members
    from sparsemble import priors as priors
    from sparsemble import recipes as recipes
    from sparsemble import reports as reports
    from sparsemble import runs as runs
    from sparsemble import samplers as samplers
    from sparsemble import seeds as seeds
    from sparsemble import settings as settings
    from sparsemble import stages as stages
    from sparsemble import store as store
    from sparsemble import structure as structure
    from sparsemble.data import Corpus as Corpus
    from sparsemble.data import Dataset as Dataset
    from sparsemble.data import Scaling as Scaling
    from sparsemble.data import as_dataset as as_dataset
    from sparsemble.data import digits as digits
    from sparsemble.data import grammar as grammar
    from sparsemble.data import mnist as mnist
    from sparsemble.data import ptb as ptb
    from sparsemble.data import read_corpus as read_corpus
    from sparsemble.ensemble import Ensemble as Ensemble
    from sparsemble.ensemble import LanguageEnsemble as LanguageEnsemble
    from sparsemble.errors import DivergedError as DivergedError
    from sparsemble.errors import InputError as InputError
    from sparsemble.errors import SparsembleError as SparsembleError
    from sparsemble.layouts import LanguageModel as LanguageModel
    from sparsemble.layouts import feedforward as feedforward
    from sparsemble.layouts import feedforward_layout as feedforward_layout
    from sparsemble.layouts import language_layout as language_layout
    from sparsemble.members import Member as Member
    from sparsemble.members import compact as compact
    from sparsemble.recipes import Recipe as Recipe
    from sparsemble.recipes import load_recipe as load_recipe
    from sparsemble.runs import Learned as Learned
    from sparsemble.runs import learn as learn
    from sparsemble.stages import draw_samples as draw_samples
    from sparsemble.stages import prune as prune
    from sparsemble.stages import retrain as retrain

    __version__: str
else:

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used: `sparsemble --help` must not load PyTorch."""
        if name in _HOME:
            return getattr(import_module(f"sparsemble.{_HOME[name]}"), name)
        if name in _packages():
            return import_module(f"sparsemble.{name}")
        if name == "__version__":
            from importlib.metadata import version

            return version("sparsemble")
        raise AttributeError(f"module 'sparsemble' has no attribute {name!r}")


def _packages() -> set[str]:
    """The sub-packages and modules: `sparsemble.samplers` needs no import of its own."""
    from pkgutil import iter_modules

    return {module.name for module in iter_modules(__path__) if not module.name.startswith("_")}


def __dir__() -> list[str]:
    return sorted({*__all__, *_packages()})
