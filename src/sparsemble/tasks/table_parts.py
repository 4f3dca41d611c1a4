"""Tables with known answers, in terms of the table that an ensemble was learned from.

A task remembers the encoding of that table's columns, so that others are read in the same way; one
that does not fit, or was read otherwise, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import Tensor

from sparsemble.data import Dataset
from sparsemble.errors import InputError
from sparsemble.tables import TableDataset, TableEncoding, as_frame, is_table


def is_of_table(data: Any) -> bool:
    """Is it a table, or a pair of a table and its targets?"""
    return is_table(data) or (
        isinstance(data, tuple | list) and len(data) == 2 and is_table(data[0])
    )


def opened_table(data: Any, columns: TableEncoding | None, source: str) -> TableDataset:
    """A table with its targets, or a pair of both.

    Args:
        data: Of which `is_of_table` is true.
        columns: What was learned from.
        source: Where it comes from, for messages.
    """
    if columns is None:
        raise InputError(
            f"{source}: a table does not say what is to be predicted: give "
            "sparsemble.table(frame, target='COLUMN')"
        )
    if is_table(data):
        return TableDataset.of(as_frame(data, source), columns, source)
    return TableDataset.of_pair(as_frame(data[0], source), data[1], columns, source)


def with_columns(
    checked: Dataset, data: Dataset, columns: TableEncoding | None, source: str
) -> Dataset:
    """Checked data that still know their columns, which must be those that were learned.

    Args:
        checked: What a task made of the data.
        data: As they were given.
        columns: What was learned from, if that is known.
        source: Where they come from, for messages.
    """
    if not isinstance(data, TableDataset):
        return checked
    if columns is not None and not columns.reads_as(data.columns):
        raise InputError(
            f"{source}: the table's columns were read otherwise than those of the table that was "
            "learned from: give the table itself, or make it with table(…, like=train)"
        )
    return replace(data, **{own.name: getattr(checked, own.name) for own in fields(Dataset)})


def table_inputs(values: Any, columns: TableEncoding, source: str) -> Tensor | None:
    """The inputs in a table or a dict of columns; `None` of anything else."""
    if not is_table(values) and not isinstance(values, Mapping):
        return None
    return columns.encode(as_frame(values, source), source)


def about_unseen(columns: TableEncoding | None, unseen: str | None) -> TableEncoding | None:
    """The encoding with another answer to what it has not seen, if there is one."""
    if unseen is None:
        return columns
    if columns is None:
        raise InputError(f"unseen = {unseen!r} is for ensembles that were learned from a table")
    asked: TableEncoding = TableEncoding.read(
        {**columns.model_dump(), "unseen": unseen}, source="--unseen"
    )
    return asked
