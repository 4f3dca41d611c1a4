"""Inputs from arrays and tables of numbers, one or several for every example, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsemble.data.arguments import Arguments, Inputs
from sparsemble.errors import InputError

_TABLES = (
    "; a table of texts, dates and missing values is read by sparsemble.table(frame, "
    "target='COLUMN')"
)
_LARGEST_INT = np.iinfo(np.int64).max
_COMPUTED = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
)
_RESOLUTION = 1e-5
"""The range of a column beside its size, at least."""


def any_inputs(values: Any, targets: Any, source: str) -> Inputs:
    """One array of inputs, or several: those of a dict, or of a tuple or list of arrays.

    A tuple of as many arrays as there are targets holds one example in each, as an array of them
    would, unless each of them has as many rows.
    """
    if isinstance(values, Arguments | Mapping):
        return as_arguments(values, source)
    if isinstance(values, tuple | list) and all(map(_is_array, values)):
        count = len(targets) if hasattr(targets, "__len__") else -1
        each = {len(own) for own in values}
        if len(values) != count or each == {count}:
            return as_arguments(values, source)
    return as_inputs(values, source)


def _is_array(values: Any) -> bool:
    return isinstance(values, Tensor | np.ndarray) and values.ndim > 0


def as_arguments(values: Any, source: str) -> Arguments:
    """Several inputs of every example, each checked as `as_inputs` does; they may have no rows.

    Args:
        values: A dict by the names of the network's arguments, or a tuple in their order.
        source: Where they come from, for messages.
    """
    if isinstance(values, Arguments):
        positional, named = values.positional, values.named
    elif isinstance(values, Mapping):
        positional, named = (), values
        strange = [name for name in values if not isinstance(name, str)]
        if strange:
            raise InputError(
                f"{source}: an input is called {strange[0]!r}: names are those of the network's "
                "arguments"
            )
    else:
        positional, named = tuple(values), {}
    if not positional and not named:
        raise InputError(f"{source}: no inputs: give at least one array")
    found = Arguments(
        tuple(_one_of(own, f"{source}, input {place}") for place, own in enumerate(positional, 1)),
        {name: _one_of(own, f"{source}, input {name!r}") for name, own in named.items()},
    )
    if len({len(tensor) for tensor in found.tensors}) > 1:
        lengths = ", ".join(
            f"{len(tensor)} of {name or place}"
            for place, (name, tensor) in enumerate(zip(found.names, found.tensors, strict=True), 1)
        )
        raise InputError(
            f"{source}: inputs of different lengths ({lengths}): give one row of each per example"
        )
    return found


def _one_of(values: Any, source: str) -> Tensor:
    tensor = as_tensor(values, source)
    if tensor.ndim < 1:
        raise InputError(f"{source}: a single number: give one row per example")
    return _finite(tensor, source)


def as_inputs(values: Any, source: str) -> Tensor:
    """Numbers in one row per example: floats in single precision, integers as they are.

    Whatever is not numbers, not finite or not in rows raises `InputError`.
    """
    tensor = as_tensor(values, source)
    if tensor.ndim < 2 and not tensor.is_complex():
        raise InputError(f"{source}: inputs need one row per example, got {tuple(tensor.shape)}")
    return _finite(tensor, source)


def _finite(tensor: Tensor, source: str) -> Tensor:
    """Inputs in single precision, if they are floating, real and finite."""
    if tensor.is_complex():
        raise InputError(f"{source}: complex inputs are not supported")
    if tensor.is_floating_point():
        tensor = tensor.float()
        # A finite sum has finite terms only, and is far sooner computed.
        if not bool(tensor.sum().isfinite()) and not bool(tensor.isfinite().all()):
            bad = (~torch.isfinite(tensor).flatten(1)).any(1).nonzero().squeeze(1)
            raise InputError(
                f"{source}: {len(bad)} of {len(tensor)} examples hold NaN or infinity (in single "
                f"precision), the first is example {int(bad[0])}; remove or fill them in"
            )
    return tensor


def check_resolution(inputs: Any, source: str) -> None:
    """Refuse columns in double precision that would be nearly constant in single precision."""
    if isinstance(inputs, Tensor) and inputs.dtype is torch.float64:
        inputs = inputs.detach().cpu().numpy()
    if not isinstance(inputs, np.ndarray) and column_names(inputs) is None:
        return
    values = np.asarray(inputs)
    if values.dtype != np.float64 or values.ndim != 2 or not len(values):
        return
    low, high = values.min(0), values.max(0)
    hardly = (high > low) & (high - low < _RESOLUTION * np.maximum(np.abs(low), np.abs(high)))
    if hardly.any():
        column = int(hardly.argmax())
        raise InputError(
            f"{source}: feature {column} lies between {low[column]:.10g} and {high[column]:.10g}, "
            "which single precision can hardly tell apart: subtract what they have in common"
        )


def column_names(values: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, as pandas, polars and Arrow call them."""
    columns = getattr(values, "column_names", None)
    if columns is None:
        columns = getattr(values, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def matrix_of(
    rows: Sequence[Mapping[str, Any]], source: str
) -> tuple[list[list[Any]], tuple[str, ...]]:
    """Rows that are objects by the names of their features, as lists, and those names."""
    names = tuple(rows[0])
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            other = next(iter(row.keys() ^ rows[0].keys()))
            raise InputError(f"{source}: of rows 1 and {number} only one has {other!r}")
    return [[row[name] for name in names] for row in rows], names


def check_unmasked(values: Any, source: str) -> None:
    """Refuse a masked array with something masked: what lies below would be taken for real."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(
            f"{source}: {np.ma.getmaskarray(values).sum()} values of a masked array are masked: "
            "leave their examples out, or fill them in"
        )


def _plain_tensor(tensor: Tensor, source: str) -> Tensor:
    """A tensor that holds its numbers one by one, in a type that can be computed with."""
    if tensor.is_meta:
        raise InputError(f"{source}: a tensor on the meta device holds no numbers")
    if tensor.is_nested:
        raise InputError(f"{source}: a nested tensor has rows of different lengths: pad them")
    if tensor.is_quantized:
        raise InputError(f"{source}: a quantised tensor: give tensor.dequantize()")
    if tensor.layout is not torch.strided:
        raise InputError(f"{source}: a {tensor.layout} tensor: give tensor.to_dense()")
    if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return as_tensor(tensor.cpu().numpy(), source).to(tensor.device)
    if tensor.dtype not in _COMPUTED and not tensor.is_complex():
        raise InputError(f"{source}: {tensor.dtype} is for storing numbers: give tensor.float()")
    return tensor


def as_tensor(values: Any, source: str, *, single: bool = True) -> Tensor:
    """Numbers of any kind; floats in single precision unless asked for."""
    if isinstance(values, Tensor):
        return _plain_tensor(values.detach(), source)
    check_unmasked(values, source)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{source}: rows of different lengths") from None
    if array.dtype.kind == "c":
        raise InputError(f"{source}: complex numbers are not supported")
    if array.dtype.kind not in "fiub":
        hint = "" if column_names(values) is None else _TABLES
        raise InputError(f"{source}: values of type {array.dtype} are not numbers{hint}")
    if array.dtype.kind == "f" and array.dtype.itemsize != (4 if single else 8):
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            array = array.astype(np.float32 if single else np.float64)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        if array.size and array.max() > _LARGEST_INT:
            raise InputError(f"{source}: {array.max()} is too large for a 64-bit integer")
        array = array.astype(np.int64)
    # A copy where the array is read-only, reversed or not in native byte order.
    plain = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
    return torch.from_numpy(plain)
