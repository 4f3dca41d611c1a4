"""Layouts: one file a network family, each turning a network into its `Layout`."""

from sparsemble.layouts.feedforward import Grouping, feedforward, feedforward_layout
from sparsemble.layouts.language import LanguageGrouping, language_layout
from sparsemble.layouts.language_model import LanguageModel
from sparsemble.layouts.networks import AnyGrouping, layout_of

__all__ = [
    "AnyGrouping",
    "Grouping",
    "LanguageGrouping",
    "LanguageModel",
    "feedforward",
    "feedforward_layout",
    "language_layout",
    "layout_of",
]
