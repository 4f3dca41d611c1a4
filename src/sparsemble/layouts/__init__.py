"""Layouts: one file a network family, each turning a network into its `Layout`."""

from sparsemble.layouts.feedforward import Grouping, feedforward, feedforward_layout

__all__ = ["Grouping", "feedforward", "feedforward_layout"]
