"""Examples with their targets as one value, checked where it enters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sparsemble.data.arguments import Arguments, Inputs
from sparsemble.data.scaling import Scaling
from sparsemble.errors import InputError

_RESOLUTION = 1e-5
"""The range of a column beside its size, at least."""
IGNORED = -100
"""The class of positions that do not count, as PyTorch has it."""
_TABLES = (
    "; a table of texts, dates and missing values is read by sparsemble.table(frame, "
    "target='COLUMN')"
)


@dataclass(frozen=True)
class Dataset:
    """Raw inputs and targets, with what is needed to read predictions later.

    With `class_names` targets are indices of them, without they are numbers to be predicted, one or
    several per example. Inputs are one tensor, or several as `Arguments`; only one is scaled, and
    has names of features.
    """

    inputs: Inputs
    targets: Tensor
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    scaling: Scaling = field(default_factory=Scaling.none)
    target_names: tuple[str, ...] | None = None
    weights: Tensor | None = None
    """How much each example counts, beside the others; by default all the same."""

    def __len__(self) -> int:
        return len(self.targets)

    def scaled(self) -> Inputs:
        """The inputs as the network sees them."""
        scaled: Inputs = self.scaling(self.inputs)
        return scaled

    def split(self, last: int) -> tuple[Self, Self]:
        """All but the `last` examples, and those."""
        if not 0 < last < len(self):
            raise InputError(f"cannot set aside {last} of {len(self)} examples")
        return self.pick(slice(None, -last)), self.pick(slice(-last, None))

    def pick(self, part: slice | Tensor) -> Self:
        """Some of the examples."""
        weights = None if self.weights is None else self.weights[part]
        return replace(self, inputs=self.inputs[part], targets=self.targets[part], weights=weights)

    def weighed(self, weights: Any, source: str = "the data") -> Self:
        """The same examples, each of which counts as much as its weight says.

        Args:
            weights: One number for each, 0 or more; only their proportions matter.
            source: Where they come from, for messages.
        """
        found = as_numbers(weights, f"{source}, weights").squeeze(1)
        if found.shape != (len(self),) or bool((found < 0).any()) or not bool(found.any()):
            raise InputError(
                f"{source}: weights must be {len(self)} numbers, none below 0 and not all 0"
            )
        return replace(self, weights=found)


@dataclass(frozen=True)
class About:
    """What is known about arrays besides their numbers."""

    feature_names: Sequence[str] | None = None
    target_names: Sequence[str] | None = None
    class_names: Sequence[str] | None = None
    scaling: Scaling | None = None
    numeric: bool = False
    """Are the targets known to be numbers to be predicted?"""

    @classmethod
    def tables(cls, inputs: Any, targets: Any) -> About:
        """What the columns of tables are called."""
        return cls(column_names(inputs), column_names(targets))

    @classmethod
    def of(cls, data: Dataset) -> About:
        """What a data set says."""
        numeric = data.class_names is None
        return cls(data.feature_names, data.target_names, data.class_names, data.scaling, numeric)


def as_dataset(
    inputs: Any,
    targets: Any,
    *,
    numeric: bool = False,
    num_classes: int | None = None,
    class_names: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    scaling: Scaling | None = None,
    ignore: int = IGNORED,
    source: str = "the data",
) -> Dataset:
    """Check arrays or tensors and make a `Dataset` of them.

    Args:
        inputs: One row of numbers per example, or a table with named columns; of a network with
            several inputs a tuple or a dict of arrays.
        targets: Class indices, or names of classes; with `numeric` any numbers. Several indices per
            example are the classes of its positions: tokens, or pixels.
        numeric: Are the targets numbers to be predicted, rather than classes?
        num_classes: How many classes there are, if more than the targets show.
        class_names: What the classes are called.
        target_names: What the numbers to be predicted are called.
        feature_names: What the inputs are called; by default a table's columns.
        scaling: What the network sees of the inputs.
        ignore: The index of positions that do not count.
        source: Where they come from, for messages.
    """
    x = any_inputs(inputs, targets, source)
    _check_resolution(inputs, source)
    features = checked_names(feature_names or column_names(inputs), "feature_names", source)
    if isinstance(x, Arguments):
        if features is not None or not (scaling or Scaling.none()).is_identity:
            raise InputError(
                f"{source}: names of features and a scaling are for a single array of inputs"
            )
    elif features is not None and len(features) != x[0].numel():
        raise InputError(f"{source}: {len(features)} feature names for {x[0].numel()} features")
    names = checked_names(class_names, "class_names", source)
    if names is None and not numeric:
        names = _names_in(targets)
    y = as_numbers(targets, source) if numeric else as_targets(targets, names, source)
    if len(x) != len(y):
        raise InputError(
            f"{source}: {len(x)} inputs but {len(y)} {'targets' if numeric else 'labels'}"
        )
    if len(x) == 0:
        raise InputError(f"{source}: no examples")
    if numeric:
        wanted = checked_names(target_names or column_names(targets), "target_names", source)
        if wanted is not None and len(wanted) != y.shape[1]:
            raise InputError(f"{source}: {len(wanted)} target names for {y.shape[1]} targets")
        return Dataset(x, y, None, features, scaling or Scaling.none(), wanted)
    count = len(names) if names is not None else num_classes
    if count is None:
        count = int(y.max()) + 1
    if y.ndim > 1 and bool((y == ignore).all()):
        raise InputError(f"{source}: every position is ignored (class {ignore})")
    check_labels(y, count, source, ignore)
    names = names or tuple(map(str, range(count)))
    return Dataset(x, y, names, features, scaling or Scaling.none())


def _check_resolution(inputs: Any, source: str) -> None:
    """Refuse columns in double precision that would be nearly constant in single precision."""
    if not isinstance(inputs, np.ndarray | Tensor) or inputs.ndim != 2 or not len(inputs):
        return
    values = np.asarray(inputs)
    if values.dtype != np.float64:
        return
    low, high = values.min(0), values.max(0)
    hardly = (high > low) & (high - low < _RESOLUTION * np.maximum(np.abs(low), np.abs(high)))
    if hardly.any():
        column = int(hardly.argmax())
        raise InputError(
            f"{source}: feature {column} lies between {low[column]:.10g} and {high[column]:.10g}, "
            "which single precision can hardly tell apart: subtract what they have in common"
        )


def _names_in(targets: Any) -> tuple[str, ...] | None:
    """The names of classes, in the order of the alphabet, if targets are names."""
    if isinstance(targets, Tensor):
        return None
    array = np.asarray(targets) if hasattr(targets, "__len__") else np.empty(0)
    if array.ndim != 1 or not len(array) or not all(isinstance(name, str) for name in array):
        return None
    return tuple(sorted(set(array.tolist())))


def column_names(values: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, as pandas, polars and Arrow call them."""
    columns = getattr(values, "column_names", None)
    if columns is None:
        columns = getattr(values, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def in_order(inputs: Tensor, names: Sequence[str], wanted: Sequence[str], source: str) -> Tensor:
    """Columns called `names`, put into the order `wanted`, if both are the same set of names."""
    listed = checked_names(names, "feature_names", source) or ()
    if inputs.ndim != 2 or inputs.shape[1] != len(listed):
        raise InputError(
            f"{source}: {len(listed)} feature names for inputs of {tuple(inputs.shape)}"
        )
    for what, strange in (
        ("is missing", set(wanted).difference(listed)),
        ("is unknown", set(listed).difference(wanted)),
    ):
        if strange:
            first = next(name for name in (*wanted, *listed) if name in strange)
            raise InputError(f"{source}: feature {first!r} {what} ({len(strange)} in all)")
    return inputs[:, [listed.index(name) for name in wanted]]


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
    tensor = _as_tensor(values, source)
    if tensor.ndim < 1:
        raise InputError(f"{source}: a single number: give one row per example")
    return _finite(tensor, source)


def as_inputs(values: Any, source: str) -> Tensor:
    """Numbers in one row per example: floats in single precision, integers as they are.

    Whatever is not numbers, not finite or not in rows raises `InputError`.
    """
    tensor = _as_tensor(values, source)
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


def as_targets(values: Any, class_names: Sequence[str] | None, source: str) -> Tensor:
    """Class indices from indices or names."""
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
    tensor = _as_tensor(values, source)
    if tensor.ndim != 1 and (tensor.is_floating_point() or tensor.shape[1:].numel() == 1):
        raise InputError(
            f"{source}: labels need one number per example, or whole numbers for each of its "
            f"positions, got {tensor.dtype} of {tuple(tensor.shape)}"
            + ("; of one-hot rows give argmax(1)" if tensor.shape[1:].numel() > 1 else "")
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
    tensor = _as_tensor(values, source, single=False)
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


def _as_tensor(values: Any, source: str, *, single: bool = True) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
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
        array = array.astype(np.float32 if single else np.float64)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    # A copy where the array is read-only, reversed or not in native byte order.
    plain = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
    return torch.from_numpy(plain)


def checked_names(names: Sequence[str] | None, what: str, source: str) -> tuple[str, ...] | None:
    """Names as a tuple, if all are texts and no two are the same."""
    if names is None:
        return None
    listed = tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        raise InputError(f"{source}: {what} must be a list of texts, not {names!r}")
    if len(set(listed)) < len(listed):
        twice = next(name for name in listed if listed.count(name) > 1)
        raise InputError(f"{source}: {what} has {twice!r} twice")
    return listed
