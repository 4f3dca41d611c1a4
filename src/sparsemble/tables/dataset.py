"""Tables as data to learn from: the inputs, the targets, and what was found in the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from sparsemble.data import Dataset
from sparsemble.errors import InputError
from sparsemble.seeds import derive
from sparsemble.tables.cells import cells_of
from sparsemble.tables.encoding import TableEncoding
from sparsemble.tables.frames import as_frame, is_table

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame


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
            frame, found = with_targets(frame, names, source)
        return cls._made(columns, columns.encode(frame, source), frame, source, found)

    @classmethod
    def of_pair(cls, frame: Frame, targets: Any, columns: TableEncoding, source: str) -> Self:
        """The same of a table and its targets beside it, in another table or an array."""
        if not is_table(targets):
            targets = _named(np.asarray(targets), [own.name for own in columns.targets], source)
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
        if len(inputs) == 0:
            raise InputError(f"{source}: no rows")
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
        return whole.pick(rest), whole.pick(own)


def with_targets(
    frame: Frame, targets: Sequence[str], source: str
) -> tuple[Frame, tuple[str, ...]]:
    """The rows that have a target, and a sentence about the others."""
    found = rows_with(frame, targets)
    sentence = about_left_out(len(frame) - len(found), len(frame), targets, source)
    return found, sentence


def rows_with(frame: Frame, targets: Sequence[str]) -> Frame:
    """The rows that have a target."""
    missing = np.any([cells_of(frame[name]).missing for name in targets], axis=0)
    return frame[[int(row) for row in (~missing).nonzero()[0]]] if missing.any() else frame


def about_left_out(
    left_out: int, rows: int, targets: Sequence[str], source: str
) -> tuple[str, ...]:
    """A sentence about rows without a target, if there are any; not all may be without.

    Args:
        left_out: How many they are,
        rows: of so many.
        targets: Columns of what is to be predicted.
        source: Where the rows come from, for messages.
    """
    if not left_out:
        return ()
    if left_out == rows:
        raise InputError(f"{source}: {' and '.join(targets)} is missing in every row")
    return (f"{left_out:,} of {rows:,} rows are left out: {' or '.join(targets)} is missing there",)


def _named(answers: np.ndarray, names: Sequence[str], source: str) -> dict[str, np.ndarray]:
    """Targets that came without names, as columns."""
    columns = answers[:, None] if answers.ndim == 1 else answers
    if columns.ndim != 2 or columns.shape[1] != len(names):
        raise InputError(
            f"{source}: targets of shape {answers.shape}: give one column for each of "
            f"{', '.join(names)}"
        )
    return dict(zip(names, columns.T, strict=True))
