"""Operations while `torch.jit.trace` writes them down: in the form that keeps lengths open.

It then gives the length of a tensor as a tensor that remembers where it came from. Operations of
the table take numbers in its place, and the length of the example would stay in what is written
down; torch's own functions and methods of the same names keep it open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from sparsemble.programs.graph import Ref, Step, leaves
from sparsemble.programs.operations import operation

_LENGTHS = ("aten.sym_size.int", "aten.sym_numel.default")


def open_forms(steps: Iterable[Step]) -> dict[str, Callable[..., Any]]:
    """The other forms of the steps that make or take a length, by their names."""
    lengths: set[str] = set()
    forms: dict[str, Callable[..., Any]] = {}
    for step in steps:
        arguments = (step.arguments, tuple(own for _, own in step.keywords))
        takes = any(isinstance(leaf, Ref) and leaf.name in lengths for leaf in leaves(arguments))
        if step.operation in _LENGTHS or (takes and not step.operation.startswith("aten.")):
            lengths.add(step.name)
        if step.operation in _LENGTHS or takes:
            forms[step.name] = _open_form(step.operation)
    return forms


def _open_form(name: str) -> Callable[..., Any]:
    """What computes the same as an operation of the table."""
    if not name.startswith("aten."):
        return operation(name)
    own = name.split(".")[1]
    if own == "sym_size":
        return torch.Tensor.size
    if own == "sym_numel":
        return torch.Tensor.numel
    if own == "slice":
        return _slice
    method, function = getattr(Tensor, own, None), getattr(torch, own, None)

    def call(*arguments: Any, **named: Any) -> Any:
        on_tensor = bool(arguments) and isinstance(arguments[0], Tensor) and arguments[0].ndim > 0
        chosen = (method if on_tensor else None) or function or operation(name)
        return chosen(*arguments, **named)

    return call


def _slice(values: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    dim %= values.ndim
    return values[(*[slice(None)] * dim, slice(start, end, step))]
