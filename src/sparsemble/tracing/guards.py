"""What `torch.export` found out about lengths: which are equal, and what has to hold of them.

While it traces, every question that a network asks of a length is answered as for the example, and
noted as a guard. Guards become conditions that a program can check by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch import Tensor
from torch.utils._sympy import functions as own

from sparsemble.programs.lengths import Expression


class UnknownQuestionError(Exception):
    """A network asks of lengths what no condition can say."""


Free = tuple[tuple[tuple[int, str], ...], ...]

_NAMES: Mapping[Any, str] = {
    sympy.Add: "+",
    sympy.Mul: "*",
    own.FloorDiv: "//",
    own.CleanDiv: "//",
    own.Mod: "%",
    own.PythonMod: "%",
    own.Max: "max",
    own.Min: "min",
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.Lt: "<",
    sympy.Le: "<=",
    sympy.Gt: ">",
    sympy.Ge: ">=",
    sympy.And: "and",
    sympy.Or: "or",
    sympy.Not: "not",
}


def lengths_of(inputs: Sequence[Any]) -> tuple[Free, tuple[Expression, ...]]:
    """Of every input the dimensions of free lengths, by name, and what has to hold of these."""
    names: dict[sympy.Symbol, str] = {}
    free: list[tuple[tuple[int, str], ...]] = []
    environment: Any = None
    for tensor in inputs:
        found: list[tuple[int, str]] = []
        for dim, length in enumerate(tensor.shape if isinstance(tensor, Tensor) else ()):
            expression = length.node.expr if isinstance(length, torch.SymInt) else length
            if isinstance(length, torch.SymInt) and isinstance(expression, sympy.Symbol):
                environment = length.node.shape_env
                name = "examples" if not names and dim == 0 else f"length {len(names)}"
                found.append((dim, names.setdefault(expression, name)))
        free.append(tuple(found))
    guards = [] if environment is None else environment.guards
    conditions = dict.fromkeys(
        condition
        for guard in guards
        for condition in (_expression(environment.simplify(guard.expr), names),)
        if condition is not True and condition != 1
    )
    return tuple(free), tuple(conditions)


def _expression(expression: Any, names: Mapping[sympy.Symbol, str]) -> Expression:
    if isinstance(expression, sympy.Symbol) and expression in names:
        return names[expression]
    if expression in (sympy.true, sympy.false):
        return int(expression is sympy.true)
    if expression.is_Integer:
        return int(expression)
    if isinstance(expression, sympy.Pow) and expression.exp.is_Integer and expression.exp > 0:
        return ("*", *[_expression(expression.base, names)] * int(expression.exp))
    for kind, name in _NAMES.items():
        if isinstance(expression, kind):
            return (name, *(_expression(argument, names) for argument in expression.args))
    raise UnknownQuestionError(str(expression))
