"""The table of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

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
