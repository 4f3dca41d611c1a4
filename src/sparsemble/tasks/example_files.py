"""Files of examples, predicted and scored a few thousand rows at a time.

However long a file is, no more of it is held; and as the rows of a part are as many as members
compute at once, or a multiple, predictions are those of the whole. Figures are added up part by
part, as those of any data are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sparsemble.data import Dataset, Inputs
from sparsemble.data.arrays import rows_at_once
from sparsemble.data.rows import Rows, read_rows
from sparsemble.errors import InputError, NotFiniteError
from sparsemble.tables import TableEncoding, read_frames
from sparsemble.tables.dataset import about_left_out, rows_with
from sparsemble.tasks.file_batches import FileBatches
from sparsemble.tasks.finite import finite
from sparsemble.tasks.records import header_of, lines_of
from sparsemble.tasks.refusals import refusals
from sparsemble.tasks.task import Answer, Evaluation, Predictor

if TYPE_CHECKING:
    from sparsemble.tasks.examples import ExampleTask

# Predictions


def predicted(
    task: ExampleTask, ensemble: Predictor, path: Path, columns: TableEncoding | None
) -> Iterator[Answer]:
    """A record for every row of a file, some rows at a time.

    Args:
        task: Whose rows they are.
        ensemble: What predicts.
        path: The file, or a pipe.
        columns: What is read of a table, if one was learned from.
    """
    names = task.feature_names if columns is None else columns.names
    parts = rows_of(task, path) if columns is None else table_rows(path, columns)
    start = 0
    for inputs in parts:
        try:
            records = task.rows(_evidence(task, ensemble, inputs, names, start))
            _check_finite(records)
        except NotFiniteError as error:
            raise NotFiniteError(start + error.row, str(path)) from None
        yield Answer(records, _table(records, start))
        start += len(inputs)


def _evidence(
    task: ExampleTask,
    ensemble: Predictor,
    inputs: Inputs,
    names: Sequence[str] | None,
    start: int,
) -> Tensor:
    """What members predict for one part.

    Few rows may be computed in whichever way is quicker, but not those that a long file ends with:
    its rows are all computed in one way.
    """
    if start == 0:
        return ensemble.evidence(inputs, names)
    with refusals():
        evidence = ensemble.runner()(inputs, task.evidence)
    return finite(evidence, task)


def _check_finite(records: Sequence[Mapping[str, Any]]) -> None:
    """What is computed of finite numbers may be too large all the same."""
    for key, value in records[0].items():
        if not isinstance(value, float):
            continue
        values = (record.get(key) for record in records)
        column = [own if isinstance(own, float) else 0.0 for own in values]
        if not math.isfinite(sum(column)):
            row = next((k for k, own in enumerate(column) if not math.isfinite(own)), None)
            if row is not None:
                raise NotFiniteError(row)


def _table(records: Sequence[Mapping[str, Any]], start: int) -> Callable[[], str]:
    return lambda: ("" if start else header_of(records[0])) + lines_of(records)


def rows_of(task: ExampleTask, path: Path) -> Iterator[Inputs]:
    """The inputs in a file of rows, part by part."""
    for rows in read_rows(path, task.targets_in_files):
        yield _inputs_of(task, rows, path)


def _inputs_of(task: ExampleTask, rows: Rows, path: Path) -> Inputs:
    names = rows.names if task.feature_names is not None else None
    return task.inputs(rows.inputs, names, rows.place(path))


def table_rows(path: Path, columns: TableEncoding) -> Iterator[Tensor]:
    """The inputs in the file of a table, part by part."""

    def encoded() -> Iterator[tuple[Tensor]]:
        start = 0
        for frame in read_frames(path, columns, targets=False):
            yield (columns.encode(frame, str(path), start=start),)
            start += len(frame)

    return (inputs for (inputs,) in _of_one_size(encoded()))


# Scores


def scored_rows(task: ExampleTask, source: str) -> Evaluation:
    """A file of rows with their targets."""
    path = Path(source)
    task = task.for_labels_in(path)

    def batches() -> Iterator[tuple[Inputs, Tensor]]:
        for rows in read_rows(path, task.targets_in_files):
            if rows.labels is None:
                raise InputError(_no_labels(source, task.targets_in_files))
            place = rows.place(path)
            labelled = task.labelled(_inputs_of(task, rows, path), rows, place)
            yield from task.evaluation(labelled, place).batches()

    return Evaluation(source, 0, FileBatches(batches, path))


def _no_labels(source: str, targets: Sequence[str]) -> str:
    named = " and ".join(map(repr, targets))
    return f"{source} has no labels: name a column 'label' (CSV) or an array 'labels' (NPZ)" + (
        f", or columns or arrays {named}" if named else ""
    )


def scored_table(task: ExampleTask, columns: TableEncoding, source: str) -> Evaluation:
    """The file of a table with its targets; rows that lack one are left out, and that is said."""
    path, notes = Path(source), list[str]()
    targets = [target.name for target in columns.targets]
    classes = columns.targets[0].classes

    def pairs() -> Iterator[tuple[Tensor, Tensor]]:
        start = left_out = 0
        for whole in read_frames(path, columns, targets=True):
            frame = rows_with(whole, targets) if set(targets) <= set(whole.columns) else whole
            data = Dataset(
                columns.encode(frame, source, start=start),
                columns.targets_of(frame, source, start=start),
                class_names=classes,
                feature_names=columns.names,
                target_names=None if classes else tuple(targets),
            )
            start, left_out = start + len(whole), left_out + len(whole) - len(frame)
            if len(data):
                assert isinstance(data.inputs, Tensor)
                yield data.inputs, task.known_targets(data, source)
        notes[:] = about_left_out(left_out, start, targets, source)

    def batches() -> Iterator[tuple[Inputs, Tensor]]:
        return ((inputs, wanted) for inputs, wanted in _of_one_size(pairs()))

    return Evaluation(source, 0, FileBatches(batches, path), notes=notes)


def _of_one_size(parts: Iterable[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Tensors that belong together, cut into as many rows as are computed at once."""
    held: list[tuple[Tensor, ...]] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part[0])
        size = rows_at_once(part[0][:1].nbytes)
        if count < size:
            continue
        joined = [torch.cat(own) for own in zip(*held, strict=True)]
        whole = count // size * size
        yield from zip(*(own[:whole].split(size) for own in joined), strict=True)
        held, count = [tuple(own[whole:].clone() for own in joined)], count - whole
    if count:
        yield tuple(torch.cat(own) for own in zip(*held, strict=True))
