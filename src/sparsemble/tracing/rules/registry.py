"""The table of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, fx

Labels = Tensor | list[Any] | None
Rule = Callable[..., Labels]

RULES: dict[str, Rule] = {}
"""By the name of the operation, without its overload."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function as the rule for operations of these names."""

    def entered(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return entered


def by_name(node: fx.Node, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operation by their names, those that were given."""
    schema: Any = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments]
    return dict(zip(names, arguments, strict=False)) | dict(named)
