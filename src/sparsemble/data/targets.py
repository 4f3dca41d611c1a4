"""Targets: indices or names of classes, or numbers to be predicted, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsemble.data.inputs import as_tensor, check_unmasked
from sparsemble.errors import InputError

IGNORED = -100
"""The class of positions that do not count, as PyTorch has it."""


def as_targets(values: Any, class_names: Sequence[str] | None, source: str) -> Tensor:
    """Class indices from indices or names."""
    check_unmasked(values, source)
    if not isinstance(values, Tensor):
        try:
            array = np.asarray(values)
        except ValueError:
            raise InputError(f"{source}: labels of different lengths") from None
        if array.dtype.kind in "UO" and class_names is not None and array.ndim == 1:
            order = {name: index for index, name in enumerate(class_names)}
            unknown = [label for label in array.tolist() if label not in order]
            if unknown:
                raise InputError(
                    f"{source}: label {unknown[0]!r} is not in class_names {tuple(class_names)}"
                )
            return torch.tensor([order[label] for label in array.tolist()])
        if array.dtype.kind == "O" and any(own is None for own in array.ravel()):
            first = next(k for k, own in enumerate(array.ravel()) if own is None)
            raise InputError(f"{source}: example {first} has no label: leave it out")
        if array.dtype.kind not in "iubf":
            raise InputError(
                f"{source}: labels of type {array.dtype} are not class indices: say what the "
                "classes are called, task=Classification(class_names=...)"
            )
    tensor = as_tensor(values, source)
    if tensor.is_complex():
        raise InputError(f"{source}: complex numbers are not class indices")
    if tensor.ndim != 1 and (tensor.is_floating_point() or tensor.shape[1:].numel() == 1):
        raise InputError(
            f"{source}: labels need one number per example, or whole numbers for each of its "
            f"positions, got {tensor.dtype} of {tuple(tensor.shape)}"
            + (
                "; of one-hot rows give argmax(1)"
                if tensor.shape[1:].numel() > 1
                else ": give [:, 0]"
            )
        )
    if tensor.is_floating_point() and bool((tensor.abs() >= 2.0**63).any()):
        raise InputError(
            f"{source}: {float(tensor.abs().max()):.6g} is larger than a label may be: classes are "
            "numbered from 0"
        )
    indices = tensor.long()
    if tensor.is_floating_point() and not torch.equal(indices.to(tensor), tensor):
        raise InputError(
            f"{source}: labels are not whole numbers; to predict numbers ask for task=Regression()"
        )
    return indices


def as_numbers(values: Any, source: str) -> Tensor:
    """Numbers to be predicted, `(examples, targets)`, in double precision: offsets may be large."""
    if not isinstance(values, Tensor) and np.asarray(values).dtype.kind in "UOS":
        raise InputError(
            f"{source}: targets of type {np.asarray(values).dtype} are no numbers; to predict "
            "classes ask for task=Classification()"
        )
    tensor = as_tensor(values, source, single=False)
    if tensor.is_complex() or tensor.ndim not in (1, 2):
        raise InputError(
            f"{source}: targets need one number or one row of numbers per example, got "
            f"{tensor.dtype} of {tuple(tensor.shape)}"
        )
    tensor = (tensor.unsqueeze(1) if tensor.ndim == 1 else tensor).double()
    bad = (~tensor.isfinite()).any(1).nonzero().squeeze(1)
    if len(bad):
        raise InputError(
            f"{source}: {len(bad)} of {len(tensor)} targets are NaN or infinite, the first is that "
            f"of example {int(bad[0])}; remove or fill them in"
        )
    return tensor


def check_labels(targets: Tensor, num_classes: int, source: str, ignore: int = IGNORED) -> None:
    """Raise `InputError` if any label is not a class index; positions may be ignored."""
    strange = (targets < 0) | (targets >= num_classes)
    if targets.ndim > 1:
        strange &= targets != ignore
    outside = strange.nonzero()
    if len(outside):
        first = tuple(outside[0].tolist())
        raise InputError(
            f"{source}: label {int(targets[first])} of example {first[0]} is outside the "
            f"{num_classes} classes 0 to {num_classes - 1}: number them from 0, or give their names"
            + (f" (ignored is {ignore})" if targets.ndim > 1 else "")
        )


def names_in(targets: Any) -> tuple[str, ...] | None:
    """The names of classes, in the order of the alphabet, if targets are names."""
    if isinstance(targets, Tensor):
        return None
    array = np.asarray(targets) if hasattr(targets, "__len__") else np.empty(0)
    if array.ndim != 1 or not len(array) or not all(isinstance(name, str) for name in array):
        return None
    return tuple(sorted(set(array.tolist())))
