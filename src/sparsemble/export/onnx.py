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
from torch import Tensor
from torch.export import Dim, ExportedProgram

from sparsemble.errors import InputError
from sparsemble.export.checking import check_file, first_line
from sparsemble.export.deployed import NEXT, Deployable, Deployed
from sparsemble.export.examples import Examples, tensors_of
from sparsemble.export.metadata import metadata_of
from sparsemble.store import write_atomically

_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_LARGEST = 2**31
"""Bytes of an ONNX file that holds its own weights."""
_COUNT = 3
"""Examples that are captured with: neither none nor one, which torch takes for special."""


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
    given, free = _arguments(deployed, examples)
    captured = _captured(deployed, given, free)
    lengths = _named_lengths(captured, ensemble.task.batch_dim)
    with torch.no_grad():
        outputs = list(deployed(*given.values()))
    model = _translated(captured, list(given), outputs)
    _rename_lengths(model.graph, lengths)
    _open_states(model.graph)
    states = deployed.beginning(examples.of(_COUNT))
    for key, value in metadata_of(ensemble, model.graph, states, examples.by_name).items():
        model.metadata_props.add(key=key, value=value)
    return _write_checked(
        path, model, lambda at: check_file(at, ensemble, deployed, examples, members=members)
    )


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


def _arguments(
    deployed: Deployed, examples: Examples
) -> tuple[dict[str, Tensor], dict[str, set[int]]]:
    """What is captured with, by name, and the dimensions whose lengths may be others.

    They are seen where other examples, or more of them, have other shapes.
    """
    inputs = examples.of(_COUNT)
    more = examples.of(_COUNT + 1)
    names = examples.names
    given = dict(zip(names, tensors_of(inputs), strict=True))
    others = [own for own in (more, examples.longer(_COUNT)) if own is not None]
    shapes = [dict(zip(names, tensors_of(own), strict=True)) for own in others]
    if begun := deployed.beginning(inputs):
        with torch.no_grad():
            after = deployed(*given.values(), *begun.values())
        shapes += [deployed.beginning(more), begun]
        given |= {name: after[NEXT + name] for name in begun}
    free = {
        name: {
            dim
            for other in shapes
            if name in other
            for dim in range(own.ndim)
            if other[name].shape[dim] != own.shape[dim]
        }
        for name, own in given.items()
    }
    return given, free


def _captured(
    deployed: Deployed, given: Mapping[str, Tensor], free: Mapping[str, set[int]]
) -> ExportedProgram:
    """The computation, for any number of examples."""
    from sparsemble.export.recurrent import StandingIn

    shapes = tuple(dict.fromkeys(free[name], Dim.AUTO) for name in given)
    try:
        with torch.no_grad(), warnings.catch_warnings(), StandingIn():
            warnings.simplefilter("ignore")
            return torch.export.export(
                deployed, tuple(given.values()), dynamic_shapes=(shapes,), strict=False
            )
    except Exception as error:  # whatever torch says of a network
        raise InputError(f"the ensemble cannot be captured: {first_line(error)}") from error


def _named_lengths(captured: ExportedProgram, batch_dim: int) -> dict[str, str]:
    """What the lengths that are left open are called: of the examples, and others."""
    own = set(captured.graph_signature.user_inputs)
    values = [
        node.meta["val"]
        for node in captured.graph.nodes
        if node.op == "placeholder" and node.name in own
    ]
    batch = str(values[0].shape[batch_dim])
    if batch.isdigit():
        raise InputError(
            "the ensemble cannot be exported: what it computes depends on how many examples there "
            "are"
        )
    others = dict.fromkeys(str(n) for value in values for n in value.shape if str(n) != batch)
    symbols = [symbol for symbol in others if symbol.isidentifier()]
    numbered = [f"length_{k}" for k in range(1, len(symbols) + 1)]
    return {batch: "examples"} | dict(
        zip(symbols, numbered if len(symbols) > 1 else ["length"], strict=False)
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
