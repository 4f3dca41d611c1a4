"""Tracing: from any network and an example of its inputs to its layout and its program."""

from sparsemble.tracing.describe import Traced, describe, described

__all__ = ["Traced", "describe", "described"]
