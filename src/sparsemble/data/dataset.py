"""A classification data set as one value, checked where it enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsemble.data.scaling import Scaling
from sparsemble.errors import InputError


@dataclass(frozen=True)
class Dataset:
    """Raw inputs and class indices, with what is needed to read predictions later."""

    inputs: Tensor
    targets: Tensor
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None
    scaling: Scaling = field(default_factory=Scaling.none)

    def __len__(self) -> int:
        return len(self.targets)

    def scaled(self) -> Tensor:
        """The inputs as the network sees them."""
        return self.scaling(self.inputs)

    def split(self, held_out: int) -> tuple[Dataset, Dataset]:
        """All but the last `held_out` examples, and those."""
        if not 0 < held_out < len(self):
            raise InputError(f"cannot hold out {held_out} of {len(self)} examples")
        return self._slice(slice(None, -held_out)), self._slice(slice(-held_out, None))

    def _slice(self, part: slice) -> Dataset:
        return Dataset(
            self.inputs[part],
            self.targets[part],
            self.class_names,
            self.feature_names,
            self.scaling,
        )


def as_dataset(
    inputs: Any,
    targets: Any,
    *,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    scaling: Scaling | None = None,
    source: str = "the data",
) -> Dataset:
    """Check arrays or tensors and make a `Dataset` of them.

    Targets are class indices, or any labels (strings, say) when `class_names` lists them.
    """
    x = _as_tensor(inputs, source)
    y = _class_indices(targets, class_names, source)
    if len(x) != len(y):
        raise InputError(f"{source}: {len(x)} inputs but {len(y)} labels")
    if len(x) == 0:
        raise InputError(f"{source}: no examples")
    check_finite(x, source)
    count = len(class_names) if class_names is not None else num_classes
    if count is None:
        count = int(y.max()) + 1
    check_labels(y, count, source)
    names = tuple(class_names) if class_names is not None else tuple(map(str, range(count)))
    features = tuple(feature_names) if feature_names is not None else None
    if features is not None and len(features) != x[0].numel():
        raise InputError(f"{source}: {len(features)} feature names for {x[0].numel()} features")
    return Dataset(x, y, names, features, scaling or Scaling.none())


def check_finite(inputs: Tensor, source: str) -> None:
    """Raise `InputError` if any input is NaN or infinite."""
    if inputs.is_floating_point() and not bool(torch.isfinite(inputs).all()):
        bad = (~torch.isfinite(inputs).flatten(1)).any(1).nonzero().squeeze(1)
        raise InputError(
            f"{source}: {len(bad)} of {len(inputs)} examples hold NaN or infinity, the first is "
            f"example {int(bad[0])}; remove or fill them in"
        )


def check_labels(targets: Tensor, num_classes: int, source: str) -> None:
    """Raise `InputError` if any label is not a class index."""
    outside = ((targets < 0) | (targets >= num_classes)).nonzero().squeeze(1)
    if len(outside):
        first = int(outside[0])
        raise InputError(
            f"{source}: label {int(targets[first])} of example {first} is outside the "
            f"{num_classes} classes 0 to {num_classes - 1}"
        )


def _as_tensor(inputs: Any, source: str) -> Tensor:
    if isinstance(inputs, Tensor):
        return inputs
    array = np.asarray(inputs)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{source}: inputs of type {array.dtype} are not numbers")
    if array.ndim < 2:
        raise InputError(f"{source}: inputs need one row an example, got shape {array.shape}")
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(array))


def _class_indices(targets: Any, class_names: Sequence[str] | None, source: str) -> Tensor:
    array = targets.numpy() if isinstance(targets, Tensor) else np.asarray(targets)
    if array.ndim != 1:
        raise InputError(f"{source}: labels need one number an example, got shape {array.shape}")
    if array.dtype.kind in "iub":
        return torch.from_numpy(array.astype(np.int64))
    if array.dtype.kind == "f" and bool(np.all(array == np.floor(array))):
        return torch.from_numpy(array.astype(np.int64))
    if class_names is not None:
        order = {name: index for index, name in enumerate(class_names)}
        unknown = [label for label in array.tolist() if label not in order]
        if unknown:
            raise InputError(f"{source}: label {unknown[0]!r} is not in class_names {class_names}")
        return torch.tensor([order[label] for label in array.tolist()])
    raise InputError(
        f"{source}: labels of type {array.dtype} are not class indices; give class_names"
    )
