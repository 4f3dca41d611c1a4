"""Programs from files are tried out when they are loaded: what they compute may not be absurdly
large.

Before an operation allocates anything, it is computed without numbers, which tells how many there
would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from sparsemble.errors import CorruptFileError

MOST_NUMBERS = 2**28
"""In one tensor."""


class Bounded(TorchDispatchMode):
    """In this block an operation that would make a larger tensor is a `CorruptFileError`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Look before it is computed."""
        named = dict(kwargs or {})
        for leaf in tree_leaves(_without_numbers(func, args, named)):
            if isinstance(leaf, Tensor) and leaf.numel() > MOST_NUMBERS:
                raise CorruptFileError(f"{func} would make a tensor of {leaf.numel():,} numbers")
        return func(*args, **named)


def _without_numbers(func: OpOverload, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """What comes out, as far as its shape is known without computing it."""

    def shaped(value: Any) -> Any:
        return value.to("meta") if isinstance(value, Tensor) else value

    makes = any(argument.name == "device" for argument in func._schema.arguments)
    where = {"device": torch.device("meta")} if makes else {}
    try:
        return func(*tree_map(shaped, args), **tree_map(shaped, named) | where)
    except Exception:  # it needs numbers, or fails for another reason: the real call says which
        return None
