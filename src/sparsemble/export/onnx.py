"""Ensembles as ONNX files: everything from raw inputs to uncertainty in one graph.

The ensemble as one module (`Deployed`) is captured by `torch.export`, with the number of examples
and all lengths left open that the network leaves open, and translated. The file is written beside
its place under another name, checked there in ONNX Runtime, and only then put into its place.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from sparsemble.errors import InputError
from sparsemble.export.capturing import COUNT, captured_with, example_call, named_lengths
from sparsemble.export.checking import check_columns, check_file, first_line
from sparsemble.export.deployed import NEXT, Deployable, Deployed
from sparsemble.export.examples import Examples
from sparsemble.export.metadata import metadata_of
from sparsemble.export.table_inputs import taking_columns
from sparsemble.modes import in_mode
from sparsemble.paths import named_in_utf8
from sparsemble.store import write_atomically

_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_OPSET = 20
"""Texts can be compared from 19 on."""
_LARGEST = 2**31
"""Bytes of an ONNX file that holds its own weights."""


def export_onnx(
    ensemble: Deployable, path: Path, *, members: bool = False, example: Any = None
) -> float:
    """Write an ensemble as an ONNX file, if it predicts there what it predicts here.

    Args:
        ensemble: On the CPU.
        path: Where to.
        members: Shall the file also say what every member predicts?
        example: Raw inputs to capture and to check with; by default they are made up.

    Returns:
        The largest difference between both, relative to what is predicted.
    """
    _check_installed()
    _check_weights(ensemble)
    path = _place(path)
    examples = Examples(ensemble, example)
    deployed = Deployed(ensemble, examples.names, by_name=examples.by_name, members=members)
    with in_mode(deployed):
        model = _model(ensemble, deployed, examples)
        columns = getattr(ensemble.task, "columns", None)
        if columns is not None:
            return _write_checked(
                path,
                taking_columns(model, columns),
                lambda at: check_columns(at, ensemble, columns, members=members),
            )
        return _write_checked(
            path, model, lambda at: check_file(at, ensemble, deployed, examples, members=members)
        )


def _model(ensemble: Deployable, deployed: Deployed, examples: Examples) -> Any:
    """The ensemble in ONNX, with its metadata."""
    given, free = example_call(deployed, examples)
    captured = captured_with(deployed, given, free)
    lengths = named_lengths(captured, ensemble.task.batch_dim)
    with torch.no_grad():
        outputs = list(deployed(*given.values()))
    model = _translated(captured, list(given), outputs)
    _rename_lengths(model.graph, lengths)
    _open_states(model.graph)
    states = deployed.beginning(examples.of(COUNT))
    for key, value in metadata_of(ensemble, model.graph, states, examples.by_name).items():
        model.metadata_props.add(key=key, value=value)
    return model


def _check_installed() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"to export takes {', '.join(missing)}, not installed here: "
            "pip install 'sparsemble[export]'"
        )


def _place(path: Path) -> Path:
    """Where a file goes, behind links, in a folder that is there."""
    place = Path(os.path.realpath(path))
    named_in_utf8(place, "ONNX Runtime")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    if place.is_dir():
        raise InputError(f"{path} is a folder: name a file, as {path / 'model.onnx'}")
    return place


def _check_weights(ensemble: Deployable) -> None:
    weight = next(next(iter(ensemble)).parameters())
    if weight.dtype not in (torch.float32, torch.float64) or weight.device.type != "cpu":
        raise InputError(
            f"the ensemble's weights are {weight.dtype} on {weight.device}: to export takes 32 or "
            "64 bits on the CPU, as ensemble.float().cpu() has them"
        )


def _translated(captured: ExportedProgram, inputs: list[str], outputs: list[str]) -> Any:
    """The computation in ONNX."""
    from sparsemble.export.recurrent import translations

    try:
        with warnings.catch_warnings(), _quietly():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                captured,
                (),
                input_names=inputs,
                output_names=outputs,
                custom_translation_table=translations(),
                opset_version=_OPSET,
                dynamo=True,
                verbose=False,
            )
        assert program is not None
        return _without_notes(program.model_proto)
    except Exception as error:  # whatever the translation raises
        raise InputError(
            f"the ensemble cannot be expressed in ONNX: {first_line(error)}"
        ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch says of libraries that are not there."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _without_notes(model: Any) -> Any:
    """The model without where in which file each step was written, which is most of its size."""
    for owner in (model.graph, *model.functions):
        for part in (owner, *owner.node, *owner.value_info):
            part.ClearField("doc_string")
            part.ClearField("metadata_props")
    for part in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        part.ClearField("metadata_props")
    return model


def _rename_lengths(graph: Any, names: Mapping[str, str]) -> None:
    """Lengths by names that people know, also where they are computed with."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(
                    r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), dim.dim_param
                )


def _open_states(graph: Any) -> None:
    """A state has as many lengths left open when it comes out as when it went in."""
    inputs = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    for value in graph.output:
        before = inputs.get(value.name.removeprefix(NEXT), ())
        for known, dim in zip(before, value.type.tensor_type.shape.dim, strict=False):
            if known.dim_param and not dim.dim_param:
                dim.dim_param = f"{NEXT}{known.dim_param}"


def _write_checked(path: Path, model: Any, check: Callable[[Path], float]) -> float:
    """Write a file that is only there if it passes."""
    if model.ByteSize() >= _LARGEST:
        raise InputError(
            f"{path}: the ensemble takes {model.ByteSize() / 1e9:.1f} GB, an ONNX file holds 2 GB: "
            "export fewer members, ensemble[:k].export(...)"
        )
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        write_atomically(partial, model.SerializeToString())
        difference = check(partial)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return difference
