"""Lengths of inputs, and the conditions under which a program computes what its network does.

A network that asks for a length (`if x.shape[1] > 8`) is traced as it answers for one example; the
answer is kept as a condition on that length. An expression is a number, the name of a length, or a
tuple of an operation's name and expressions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

Expression = int | str | tuple["Expression", ...]

OPERATIONS: Mapping[str, Callable[..., int]] = {
    "+": lambda *terms: sum(terms),
    "*": lambda *factors: math.prod(factors),
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "max": max,
    "min": min,
    "and": lambda *terms: all(terms),
    "or": lambda *terms: any(terms),
    "not": operator.not_,
}


def value(expression: Expression, lengths: Mapping[str, int]) -> int:
    """What an expression is for lengths of these names.

    >>> value(("==", ("%", "t", 4), 3), {"t": 7})
    True
    """
    if isinstance(expression, str):
        return lengths[expression]
    if isinstance(expression, tuple):
        return OPERATIONS[str(expression[0])](*(value(own, lengths) for own in expression[1:]))
    return expression


def written(expression: Expression) -> str:
    """An expression for people.

    >>> written(("<=", ("//", "length 1", 2), 8))
    'length 1 // 2 <= 8'
    >>> written(("==", ("%", ("+", 1, "length 1"), 4), 0))
    '(1 + length 1) % 4 == 0'
    """
    if not isinstance(expression, tuple):
        return str(expression)
    name, *terms = expression
    words = [
        f"({written(t)})" if isinstance(t, tuple) and _binds(str(name), str(t[0])) else written(t)
        for t in terms
    ]
    return f"{name} {words[0]}" if len(words) == 1 else f" {name} ".join(words)


def _binds(outer: str, inner: str) -> bool:
    """Would the operation within be read as part of the one around it?"""
    if outer in ("and", "or"):
        return inner in ("and", "or")
    return outer in ("*", "//", "%", "max", "min", "not") or inner in ("and", "or", "max", "min")


def numbers(expression: Expression) -> Iterator[int]:
    """The numbers in an expression.

    >>> list(numbers(("<=", ("//", "length 1", 2), 8)))
    [2, 8]
    """
    if isinstance(expression, int):
        yield expression
    elif isinstance(expression, tuple):
        for own in expression[1:]:
            yield from numbers(own)


def others(
    lengths: Mapping[str, int], conditions: Sequence[Expression], *, furthest: int = 8
) -> Iterator[dict[str, int]]:
    """Nearby lengths that the conditions allow: some longer ones first, then shorter ones."""
    far = max(lengths.values(), default=0)
    for steps in (chain(range(1, furthest), (far,)), range(-1, -furthest, -1)):
        for step in steps:
            tried = {name: max(1, length + step) for name, length in lengths.items()}
            if tried != lengths and all(holds(own, tried) for own in conditions):
                yield tried
                break


def holds(condition: Expression, lengths: Mapping[str, int]) -> bool:
    """Is a condition true of lengths? It is not where it divides by none."""
    try:
        return bool(value(condition, lengths))
    except ZeroDivisionError:
        return False
