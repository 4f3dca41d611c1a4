"""Sparse structured ensembles: many small networks for the price of one.

>>> import sparsemble
>>> train, test = sparsemble.digits()
>>> recipe = sparsemble.load_recipe("digits", {"chain.chains": 2, "retrain.epochs": 20})
>>> network = sparsemble.feedforward(64, [64, 32], 10)
>>> learned = sparsemble.learn(network, train, recipe)
>>> learned.ensemble.cost.parameters_ratio < 0.5  # two networks, a fifth of the weights each
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
        "Text",
        "as_dataset",
        "diabetes",
        "digits",
        "grammar",
        "mnist",
        "ptb",
        "read_corpus",
    ),
    "ensemble": ("Budget", "Ensemble", "Verdict", "compare", "judge"),
    "errors": ("DivergedError", "InputError", "SparsembleError"),
    "layouts": ("layout_of",),
    "learning": ("Learned", "learn", "plan"),
    "loops": ("Collector", "assemble", "attach_prior", "retraining"),
    "members": ("Member", "compact"),
    "nets": ("LanguageModel", "feedforward"),
    "recipes": ("Recipe", "load_recipe"),
    "stages": ("draw_samples", "prune", "retrain"),
    "structure": ("Layout",),
    "tables": ("TableDataset", "read_table", "table"),
    "tracing": ("Traced", "describe"),
    "tasks": (
        "Classification",
        "ExampleTask",
        "LanguageModelling",
        "Regression",
        "Task",
        "generate",
        "next_words",
    ),
}
_HOME = {name: package for package, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)

if TYPE_CHECKING:  # the same again, for type checkers: they cannot follow `__getattr__`
    from sparsemble import allocation as allocation
    from sparsemble import augmentations as augmentations
    from sparsemble import caller_modes as caller_modes
    from sparsemble import cli as cli
    from sparsemble import data as data
    from sparsemble import devices as devices
    from sparsemble import engines as engines
    from sparsemble import ensemble as ensemble
    from sparsemble import errors as errors
    from sparsemble import export as export
    from sparsemble import extensions as extensions
    from sparsemble import layouts as layouts
    from sparsemble import learning as learning
    from sparsemble import loops as loops
    from sparsemble import members as members
    from sparsemble import memory as memory
    from sparsemble import modes as modes
    from sparsemble import nets as nets
    from sparsemble import pages as pages
    from sparsemble import paths as paths
    from sparsemble import priors as priors
    from sparsemble import processes as processes
    from sparsemble import programs as programs
    from sparsemble import progress as progress
    from sparsemble import recipes as recipes
    from sparsemble import reports as reports
    from sparsemble import results as results
    from sparsemble import runs as runs
    from sparsemble import samplers as samplers
    from sparsemble import search as search
    from sparsemble import seeds as seeds
    from sparsemble import serving as serving
    from sparsemble import settings as settings
    from sparsemble import sklearn as sklearn
    from sparsemble import stages as stages
    from sparsemble import store as store
    from sparsemble import streams as streams
    from sparsemble import structure as structure
    from sparsemble import tables as tables
    from sparsemble import tasks as tasks
    from sparsemble import team as team
    from sparsemble import tracing as tracing
    from sparsemble.data import Corpus as Corpus
    from sparsemble.data import Dataset as Dataset
    from sparsemble.data import Scaling as Scaling
    from sparsemble.data import Text as Text
    from sparsemble.data import as_dataset as as_dataset
    from sparsemble.data import diabetes as diabetes
    from sparsemble.data import digits as digits
    from sparsemble.data import grammar as grammar
    from sparsemble.data import mnist as mnist
    from sparsemble.data import ptb as ptb
    from sparsemble.data import read_corpus as read_corpus
    from sparsemble.ensemble import Budget as Budget
    from sparsemble.ensemble import Ensemble as Ensemble
    from sparsemble.ensemble import Verdict as Verdict
    from sparsemble.ensemble import compare as compare
    from sparsemble.ensemble import judge as judge
    from sparsemble.errors import DivergedError as DivergedError
    from sparsemble.errors import InputError as InputError
    from sparsemble.errors import SparsembleError as SparsembleError
    from sparsemble.layouts import layout_of as layout_of
    from sparsemble.learning import Learned as Learned
    from sparsemble.learning import learn as learn
    from sparsemble.learning import plan as plan
    from sparsemble.loops import Collector as Collector
    from sparsemble.loops import assemble as assemble
    from sparsemble.loops import attach_prior as attach_prior
    from sparsemble.loops import retraining as retraining
    from sparsemble.members import Member as Member
    from sparsemble.members import compact as compact
    from sparsemble.nets import LanguageModel as LanguageModel
    from sparsemble.nets import feedforward as feedforward
    from sparsemble.recipes import Recipe as Recipe
    from sparsemble.recipes import load_recipe as load_recipe
    from sparsemble.stages import draw_samples as draw_samples
    from sparsemble.stages import prune as prune
    from sparsemble.stages import retrain as retrain
    from sparsemble.structure import Layout as Layout
    from sparsemble.tables import TableDataset as TableDataset
    from sparsemble.tables import read_table as read_table
    from sparsemble.tables import table as table
    from sparsemble.tasks import Classification as Classification
    from sparsemble.tasks import ExampleTask as ExampleTask
    from sparsemble.tasks import LanguageModelling as LanguageModelling
    from sparsemble.tasks import Regression as Regression
    from sparsemble.tasks import Task as Task
    from sparsemble.tasks import generate as generate
    from sparsemble.tasks import next_words as next_words
    from sparsemble.tracing import Traced as Traced
    from sparsemble.tracing import describe as describe

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
