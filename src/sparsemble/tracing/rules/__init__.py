"""What operations do to labels: one file for each kind of operation.

A rule takes the walk, the node and the operation's own arguments, unites what must go together,
notes the weights that are used, and returns the labels of what comes out (`None`: of no unit).
"""

from importlib import import_module

from sparsemble.tracing.rules.registry import RULES, Labels, rule

__all__ = ["RULES", "Labels", "rule"]

for _kind in (
    "attention",
    "norms",
    "pictures",
    "products",
    "recurrent",
    "reductions",
    "selections",
):
    import_module(f"sparsemble.tracing.rules.{_kind}")  # each enters its rules
