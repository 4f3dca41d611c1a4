"""A whole table as inputs of a network: which columns, what each holds, how it becomes numbers.

It is found in the table that is learned from, and saved with the ensemble: columns are matched by
their names, wherever they stand, and a table that does not fit is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from sparsemble.data import Scaling
from sparsemble.errors import InputError
from sparsemble.settings import Names, Settings
from sparsemble.tables.cells import Cells, cells_of
from sparsemble.tables.columns import AnyColumn, NumberColumn, TargetColumn, Unseen, some

if TYPE_CHECKING:
    from sparsemble.tables.frames import Frame


class TableEncoding(Settings):
    """What is read of a table.

    >>> encoding = TableEncoding(columns=[NumberColumn(name="age", fill=38, marked=True)])
    >>> encoding.names
    ('age', 'age is missing')
    """

    columns: Annotated[tuple[AnyColumn, ...], Field(min_length=1)]
    """In the order of their inputs."""
    targets: tuple[TargetColumn, ...] = ()
    """What is to be predicted."""
    left_out: Names = ()
    """Columns that a table may have, and that are not read."""
    unseen: Unseen = "refuse"
    """What to do about categories, and missing values, of a kind that was never seen."""

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for names in (self.names, (*self._known, *(target.name for target in self.targets))):
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"two inputs would be called {twice!r}: rename a column")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """What the inputs are called."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def _known(self) -> tuple[str, ...]:
        return (*(column.name for column in self.columns), *self.left_out)

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that a file is to be read as texts in, whatever they look like."""
        return tuple(
            column.name
            for column in (*self.columns, *self.targets)
            if getattr(column, "categories", None) or getattr(column, "classes", None)
        )

    def encode(
        self, frame: Frame, source: str, unseen: Unseen | None = None, *, start: int = 0
    ) -> Tensor:
        """The inputs, `(rows, inputs)`, in single precision.

        Args:
            frame: A table with these columns, in any order; others only if they are known.
            source: Where it comes from, for messages.
            unseen: In the place of what was said when the columns were found.
            start: How many rows of the table came before these.
        """
        self.check_names(frame.columns, source)
        cells = {
            column.name: replace(cells_of(frame[column.name]), start=start)
            for column in self.columns
        }
        return self.encode_cells(cells, source, unseen)

    def encode_cells(
        self, cells: Mapping[str, Cells], source: str, unseen: Unseen | None = None
    ) -> Tensor:
        """The same of what each column holds."""
        how = unseen or self.unseen
        parts = [
            column.encode(cells[column.name], f"{source}, column {column.name!r}", how)
            for column in self.columns
        ]
        return torch.from_numpy(np.concatenate(parts, 1, dtype=np.float32))

    def targets_of(self, frame: Frame, source: str, *, start: int = 0) -> Tensor:
        """Class indices, `(rows,)`, or numbers in double precision, `(rows, targets)`.

        Args:
            frame: A table with a column for each target.
            source: Where it comes from, for messages.
            start: How many rows of the table came before these.
        """
        for target in self.targets:
            if target.name not in frame.columns:
                raise InputError(
                    f"{source}: there is no column {target.name!r} to compare predictions with; "
                    f"there are {some(frame.columns)}"
                )
        found = [
            target.encode(
                replace(cells_of(frame[target.name]), start=start),
                f"{source}, column {target.name!r}",
            )
            for target in self.targets
        ]
        if self.targets[0].classes is not None:
            return torch.from_numpy(found[0])
        return torch.from_numpy(np.stack(found, 1))

    def check_names(self, given: Sequence[str], source: str) -> None:
        """Are these the columns that were learned from, be it with some that are not read?"""
        found, known = set(given), {target.name for target in self.targets}.union(self._known)
        missing = [column.name for column in self.columns if column.name not in found]
        unknown = [name for name in given if name not in known]
        if missing:
            near = difflib.get_close_matches(missing[0], unknown, n=1, cutoff=0.5) or [
                name for name in unknown if name.lower() == missing[0].lower()
            ]
            hint = f"; is it {near[0]!r}? Rename it" if near else ""
            raise InputError(
                f"{source}: column {missing[0]!r} is missing ({len(missing)} in all){hint}"
            )
        if unknown:
            raise InputError(
                f"{source}: column {unknown[0]!r} was not in the table that was learned from "
                f"({len(unknown)} such in all): leave it out"
            )

    def reads_as(self, other: TableEncoding) -> bool:
        """Do both make the same inputs and targets of the table that was learned from?"""
        mine, theirs = (
            [
                column.model_copy(update={"fill": 0.0})
                if isinstance(column, NumberColumn) and not column.marked
                else column
                for column in encoding.columns
            ]
            for encoding in (self, other)
        )
        return mine == theirs and self.targets == other.targets

    def refilled(self, inputs: Tensor, rows: Tensor) -> tuple[Self, Tensor]:
        """The same with the medians of some rows alone, and all inputs filled in with them."""
        columns, inputs, place = list(self.columns), inputs.clone(), 0
        for number, column in enumerate(self.columns):
            if isinstance(column, NumberColumn):
                none = torch.zeros(len(inputs), dtype=torch.bool)
                missing = inputs[:, place + 1] == 1 if column.marked else none
                known = inputs[rows, place][~missing[rows]]
                if len(known):
                    fill = float(np.median(known.double().numpy()))
                    columns[number] = column.model_copy(update={"fill": fill})
                    inputs[missing, place] = fill
            place += len(column.names)
        return self.model_copy(update={"columns": tuple(columns)}), inputs

    def scaling(self, inputs: Tensor) -> Scaling:
        """Numbers standardised; what is 0 or 1 stays, however rare a 1 is."""
        is_number = [
            isinstance(column, NumberColumn) and column.holds != "truth" and name == column.name
            for column in self.columns
            for name in column.names
        ]
        chosen = torch.tensor(is_number)
        if not chosen.any():
            return Scaling.none()
        own = Scaling.standard(inputs)
        return Scaling(own.shift.where(chosen, 0.0), own.factor.where(chosen, 1.0))
