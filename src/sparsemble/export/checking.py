"""A written ONNX file beside the ensemble it was made of: equal but for rounding, or an error.

ONNX Runtime reads the file and predicts for one example and for several, of two lengths where the
network reads any, and for what follows them where states are carried. The ensemble predicts as it
always does, not by what was exported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sparsemble.data import Inputs
from sparsemble.data.arguments import tensors_given
from sparsemble.errors import ExportError
from sparsemble.export.deployed import NEXT, Deployable, Deployed
from sparsemble.export.examples import Examples
from sparsemble.export.table_inputs import in_a_column, input_names, made_up_cells
from sparsemble.tables import TableEncoding

_COUNTS = (1, 7)
"""Examples at a time."""
_ROUNDINGS = 1000
"""By how many an output may differ, beside the largest of its kind."""


def check_file(
    path: Path, ensemble: Deployable, deployed: Deployed, examples: Examples, *, members: bool
) -> float:
    """The largest difference between both, relative to what is predicted.

    Args:
        path: The file.
        ensemble: What it was made of.
        deployed: Knows the states that come first.
        examples: What both predict for.
        members: Does the file say what every member predicts?
    """
    read = _Read(path)
    is_free = examples.longer(1) is not None
    worst = 0.0
    for inputs in _tried(examples):
        runner = ensemble.runner()
        states = deployed.beginning(inputs)
        for part in _read(inputs, is_free) if states else (inputs,):
            wanted = ensemble.task.exported(runner(part, ensemble.task.evidence), members=members)
            given = dict(zip(examples.names, tensors_given(part), strict=True)) | states
            where = f"inputs of {_shapes(part)}"
            found = read({name: own.numpy() for name, own in given.items()}, where)
            worst = max(worst, _difference(found, wanted, where))
            states = {name: found[NEXT + name] for name in states}
    return worst


def check_columns(
    path: Path, ensemble: Deployable, columns: TableEncoding, *, members: bool
) -> float:
    """The same of a file that takes the columns of a table.

    Args:
        path: The file.
        ensemble: What it was made of.
        columns: How it reads a table.
        members: Does the file say what every member predicts?
    """
    read, task = _Read(path), ensemble.task
    worst = 0.0
    for count in _COUNTS:
        table = {column.name: made_up_cells(column, count) for column in columns.columns}
        inputs = columns.encode_cells(table, "made up")
        wanted = task.exported(ensemble.runner()(inputs, task.evidence), members=members)
        where = f"a table of {count} rows"
        called = input_names(columns, list(wanted))
        given = {called[name]: in_a_column(cells) for name, cells in table.items()}
        worst = max(worst, _difference(read(given, where), wanted, where))
    return worst


class _Read:
    """A file as ONNX Runtime reads it."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # what fails is said in an error
        try:
            self._session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # whatever ONNX Runtime raises
            raise ExportError(
                f"ONNX Runtime cannot read what was exported: {first_line(error)}"
            ) from None
        self._names = [own.name for own in self._session.get_outputs()]

    def __call__(self, given: Mapping[str, np.ndarray], where: str) -> dict[str, Tensor]:
        """What comes out, by name."""
        try:
            arrays = self._session.run(self._names, dict(given))
        except Exception as error:
            raise ExportError(
                f"ONNX Runtime cannot predict for {where}: {first_line(error)}"
            ) from None
        return dict(zip(self._names, map(torch.from_numpy, arrays), strict=True))


def _tried(examples: Examples) -> Iterator[Inputs]:
    for count in _COUNTS:
        yield examples.of(count)
        if (longer := examples.longer(count)) is not None:
            yield longer


def _difference(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], where: str) -> float:
    """Raise if outputs differ by more than rounding; by how much they do otherwise."""
    scale = _scale(wanted)
    worst = 0.0
    for name, own in wanted.items():
        other = found[name]
        if other.shape != own.shape:
            raise ExportError(
                f"{name} has the shape {tuple(other.shape)} for {where}, the ensemble's "
                f"{tuple(own.shape)}"
            )
        away = float(((other.double() - own.double()).abs() / scale).max()) if own.numel() else 0.0
        if not away <= _ROUNDINGS * torch.finfo(torch.float32).eps:
            raise ExportError(
                f"{name} differs from the ensemble's by {away:.2g} of the largest for {where}: "
                "the file was not written"
            )
        worst = max(worst, away)
    return worst


def _scale(wanted: Mapping[str, Tensor]) -> Tensor:
    """What differences are measured by: the largest number, of columns of one kind for each."""
    last = {own.shape[-1] if own.ndim > 1 else 0 for own in wanted.values()}
    if len(last) == 1 and 0 not in last:
        rows = torch.cat([own.double().flatten(0, -2) for own in wanted.values()])
        largest = rows.abs().amax(0)
    else:
        largest = torch.stack([own.double().abs().max() for own in wanted.values()]).max()
    return largest.clamp_min(torch.finfo(torch.float32).tiny)


def _read(inputs: Inputs, is_free: bool) -> tuple[Inputs, ...]:
    """A text in parts, of which each follows the one before; one word is read alone."""
    assert isinstance(inputs, Tensor), "states go with one sequence"
    return (inputs[:1], inputs, inputs.flip(0)) if is_free else (inputs, inputs.flip(0))


def _shapes(inputs: Inputs) -> str:
    return " and ".join(f"shape {tuple(own.shape)}" for own in tensors_given(inputs))


def first_line(error: BaseException) -> str:
    """What an error of another library says first, of what caused it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0] or type(error).__name__
