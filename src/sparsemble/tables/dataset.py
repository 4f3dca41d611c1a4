"""Tables as data to learn from: the inputs, the targets, and what was found in the columns.

people = read_table("people.csv", target="income")
train, test = people.parts(test=0.2)
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from sparsemble.data import Dataset
from sparsemble.errors import InputError
from sparsemble.seeds import derive
from sparsemble.tables.cells import cells_of
from sparsemble.tables.columns import Unseen, shown
from sparsemble.tables.encoding import TableEncoding
from sparsemble.tables.files import read_frame
from sparsemble.tables.frames import as_frame, is_table
from sparsemble.tables.guessing import Choices, guess

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame

Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, kw_only=True)
class TableDataset(Dataset):
    """A `Dataset` made of a table; `columns` travels with it into the ensemble."""

    columns: TableEncoding
    found: tuple[str, ...] = ()
    """What was found in the table, in sentences."""

    @property
    def in_short(self) -> str:
        """What was learned from, in one sentence."""
        columns, targets = len(self.columns.columns), [own.name for own in self.columns.targets]
        text = f"{' and '.join(targets)} from {columns} column{'s' * (columns > 1)}"
        text += f", as {len(self.columns.names)} inputs"
        left = self.columns.left_out
        return f"{text}; left out: {', '.join(left)}" if left else text

    @classmethod
    def of(cls, frame: Frame, columns: TableEncoding, source: str) -> Self:
        """A table whose columns are known; rows without a target are left out, and that is said."""
        names = [target.name for target in columns.targets]
        found: tuple[str, ...] = ()
        if set(names) <= set(frame.columns):
            frame, found = _with_targets(frame, names, source)
        return cls._made(columns, columns.encode(frame, source), frame, source, found)

    @classmethod
    def of_pair(cls, frame: Frame, targets: Any, columns: TableEncoding, source: str) -> Self:
        """The same of a table and its targets beside it: another table, or one array of values."""
        if not is_table(targets):
            targets = {columns.targets[0].name: np.asarray(targets)}
        answers = as_frame(targets, source)
        if len(answers) != len(frame):
            raise InputError(f"{source}: {len(frame)} rows but {len(answers)} targets")
        return cls._made(columns, columns.encode(frame, source), answers, source, ())

    @classmethod
    def _made(
        cls,
        columns: TableEncoding,
        inputs: Tensor,
        answers: Frame,
        source: str,
        found: tuple[str, ...],
    ) -> Self:
        classes = columns.targets[0].classes
        return cls(
            inputs=inputs,
            targets=columns.targets_of(answers, source),
            class_names=classes,
            feature_names=columns.names,
            scaling=columns.scaling(inputs),
            target_names=None if classes else tuple(own.name for own in columns.targets),
            columns=columns,
            found=found,
        )

    def parts(self, test: float = 0.2, seed: int = 0) -> tuple[Self, Self]:
        """A training and a test set, drawn at random.

        Medians that fill in missing values, and the scaling, come from the training set alone.

        Args:
            test: The share of rows that is the test set.
            seed: Says which.
        """
        held = round(test * len(self))
        if not 0 < held < len(self):
            raise InputError(
                f"test = {test}: of {len(self)} rows {held} would be for the test; give a share "
                "that leaves some for both"
            )
        generator = torch.Generator().manual_seed(derive(seed, "test rows"))
        order = torch.randperm(len(self), generator=generator)
        rest, own = (rows.sort().values for rows in (order[held:], order[:held]))
        assert isinstance(self.inputs, Tensor)
        columns, inputs = self.columns.refilled(self.inputs, rest)
        scaling = columns.scaling(inputs[rest])

        whole = replace(self, inputs=inputs, columns=columns, scaling=scaling)
        train, held_out = (
            replace(whole, inputs=inputs[rows], targets=self.targets[rows]) for rows in (rest, own)
        )
        return train, held_out


def table(
    frame: Any,
    target: str | Sequence[str] | None = None,
    *,
    predict: Literal["classes", "numbers"] | None = None,
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    unseen: Unseen = "refuse",
    like: TableDataset | None = None,
) -> TableDataset:
    """A table of pandas, polars or Arrow as data to learn from.

    Args:
        frame: The table; a dict of columns is one, too.
        target: The column to be predicted; several are numbers.
        predict: What the target is; by default classes if it holds texts, true and false, or few
            different whole numbers, else numbers.
        categories: Columns that are categories, be they numbers or have many different values.
        numbers: Columns that are numbers, be they texts or count the rows.
        leave_out: Columns that are not read.
        unseen: What predictions do about categories and missing values that this table does not
            show: "refuse", or "ignore".
        like: A table whose columns are known, in the place of all of these: a test set's are read
            as those of the training set are.
    """
    choices = Choices(
        predict=predict,
        categories=_listed(categories, "categories"),
        numbers=_listed(numbers, "numbers"),
        leave_out=_listed(leave_out, "leave_out"),
        unseen=unseen,
    )
    return made_of(as_frame(frame, "the table"), target, choices, "the table", like)


def read_table(
    files: Files,
    target: str | Sequence[str] | None = None,
    *,
    predict: Literal["classes", "numbers"] | None = None,
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
    leave_out: Sequence[str] = (),
    unseen: Unseen = "refuse",
    like: TableDataset | None = None,
) -> TableDataset:
    """A table in files as data to learn from.

    Args:
        files: CSV, Parquet or NPZ; several are one table, their columns matched by name.
        target: As for `table`.
        predict: As for `table`.
        categories: As for `table`; of CSV files they are read as they are written.
        numbers: As for `table`.
        leave_out: As for `table`.
        unseen: As for `table`.
        like: As for `table`.
    """
    choices = Choices(
        predict=predict,
        categories=_listed(categories, "categories"),
        numbers=_listed(numbers, "numbers"),
        leave_out=_listed(leave_out, "leave_out"),
        unseen=unseen,
    )
    paths = [Path(files)] if isinstance(files, str | os.PathLike) else [Path(own) for own in files]
    frame = read_frame(paths, like.columns.texts if like is not None else choices.categories)
    return made_of(frame, target, choices, " and ".join(map(str, paths)), like)


def made_of(
    frame: Frame,
    target: str | Sequence[str] | None,
    choices: Choices,
    source: str,
    like: TableDataset | None = None,
) -> TableDataset:
    """A table as data: its columns are looked at, unless they are like those of another."""
    if like is not None:
        if not isinstance(like, TableDataset):
            raise InputError(f"like = {type(like).__name__}: give what table() made")
        if target is not None or choices != Choices():
            raise InputError("like says everything about the columns: leave out the rest")
        made = TableDataset.of(frame, like.columns, source)
        return replace(made, scaling=like.scaling)
    targets = (target,) if isinstance(target, str) else _listed(target or (), "target")
    if not targets:
        raise InputError(
            f"{source}: say which column is to be predicted (target): {shown(frame.columns)}"
        )
    for name in targets:
        _check_target(name, frame.columns, source)
    if len(set(targets)) < len(targets):
        raise InputError(f"target = {list(targets)}: name each column once")
    if len(frame) == 0:
        raise InputError(f"{source}: no rows")
    frame, dropped = _with_targets(frame, targets, source)
    found = guess(frame, targets, choices, source)
    made = TableDataset.of(frame, found.encoding, source)
    return replace(made, found=(*dropped, *found.found))


def _check_target(name: str, names: Sequence[str], source: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {shown(list(names))}"
        raise InputError(f"{source}: there is no column {name!r} to be predicted; {hint}")


def _with_targets(
    frame: Frame, targets: Sequence[str], source: str
) -> tuple[Frame, tuple[str, ...]]:
    """The rows that have a target, and a sentence about the others."""
    missing = np.any([cells_of(frame[name]).missing for name in targets], axis=0)
    if not missing.any():
        return frame, ()
    if missing.all():
        raise InputError(f"{source}: {' and '.join(targets)} is missing in every row")
    count = int(missing.sum())
    rows = [int(row) for row in (~missing).nonzero()[0]]
    sentence = (
        f"{count:,} of {len(missing):,} rows are left out: {' or '.join(targets)} is missing there"
    )
    return frame[rows], (sentence,)


def _listed(names: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"{what} = {names!r}: give a list of columns, as {what}=[{names!r}]")
    return tuple(names)
