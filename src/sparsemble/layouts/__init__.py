"""Layouts: one file per kind of network, each turning a network into its `Layout`."""

from sparsemble.layouts.feedforward import feedforward_layout
from sparsemble.layouts.known import layout_of
from sparsemble.layouts.language import language_layout

__all__ = ["feedforward_layout", "language_layout", "layout_of"]
