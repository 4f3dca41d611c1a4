"""Examples with their targets as one value, checked where it enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import Tensor

from sparsemble.data.arguments import Arguments, Inputs
from sparsemble.data.inputs import any_inputs, check_resolution, column_names
from sparsemble.data.scaling import Scaling
from sparsemble.data.targets import IGNORED, as_numbers, as_targets, check_labels, names_in
from sparsemble.errors import InputError

_MOST_CLASSES = 1_000_000
"""That labels are taken for without being told."""


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
    check_resolution(inputs, source)
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
        names = names_in(targets)
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
        if count > _MOST_CLASSES:
            raise InputError(
                f"{source}: label {count - 1} would be one of {count:,} classes: number them from "
                "0, or give their names"
            )
    if y.ndim > 1 and bool((y == ignore).all()):
        raise InputError(f"{source}: every position is ignored (class {ignore})")
    check_labels(y, count, source, ignore)
    names = names or tuple(map(str, range(count)))
    return Dataset(x, y, names, features, scaling or Scaling.none())


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
