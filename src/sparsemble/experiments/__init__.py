"""Experiments: the paper's tables, the search for their settings, and the demonstration."""
