"""Saved ensembles are loaded: by anyone, from anyone.

Networks and tasks are built from fixed tables, or from what the caller passes; no code is run from
a file, and nothing is made of it before its sizes are known to be what it holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsemble.data import Scaling
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.manifest import LAYOUTS, MANIFEST, Manifest, MemberEntry, buffer_stream
from sparsemble.errors import CorruptFileError, InputError, shortened
from sparsemble.layouts.known import rebuild_network
from sparsemble.members import Member, load_tensors, tensors_of
from sparsemble.members.member import Origin
from sparsemble.programs import Blueprint, Program
from sparsemble.programs.bounded import Bounded
from sparsemble.programs.writing import blueprint_from_json
from sparsemble.store import (
    RAISED_BY,
    StreamReader,
    inside,
    read_json,
    read_tensors,
    tensor_bytes,
    unpack,
)
from sparsemble.structure import GROUPINGS, Layout
from sparsemble.structure.groupings import grouped
from sparsemble.tasks import TASKS, Task
from sparsemble.tasks.legacy import task_of_manifest

_TENSOR_FILE = re.compile(r"members-[0-9a-f]{16}\.safetensors")
_SAID = 1000
"""Characters of what is wrong with a file, which may name what stands in it."""
_MOST_WEIGHTS = 10**12
"""Of a network before it was pruned."""

Factory = Callable[[], nn.Module]


def ensemble_folder(saved: Path) -> Path | None:
    """Where the ensemble lies, if there is one: in this folder or, of a run, in one inside."""
    for below in ((), ("ensemble",)):
        if inside(saved, *below, MANIFEST).is_file():
            return saved.joinpath(*below)
    return None


def is_whole(folder: Path) -> bool:
    """Are the files of a saved ensemble there, and what they were when they were written?"""
    try:
        _read_files(folder)
    except InputError:
        return False
    return True


def load_ensemble(
    folder: Path,
    *,
    factory: Factory | None = None,
    layout: Layout | None = None,
    task: type[Task] | None = None,
) -> Ensemble:
    """Read an ensemble from `folder`.

    One of the caller's own networks needs `factory`, which makes the full network, and its
    hand-written `layout`; one of the caller's own tasks needs its class.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder with a saved ensemble")
    folder = ensemble_folder(folder) or folder
    path = inside(folder, MANIFEST)
    manifest, tensors = _read_files(folder)
    try:
        return _rebuilt(manifest, tensors, factory, layout, task)
    except InputError as error:
        raise type(error)(f"{path}: {shortened(str(error), _SAID)}") from None
    except Exception as error:  # a manifest can describe anything
        said = shortened(str(error), _SAID)
        raise CorruptFileError(f"{path} does not fit its tensor file: {said}") from None


def _read_files(folder: Path) -> tuple[Manifest, dict[str, Tensor]]:
    """The manifest and the tensors that it names, checked."""
    path = inside(folder, MANIFEST)
    fields = read_json(path)
    if fields.get("version") == 1:
        fields = _of_version_1(fields)
    manifest: Manifest = Manifest.read_back(fields, path)
    if not _TENSOR_FILE.fullmatch(manifest.tensors):
        raise CorruptFileError(
            f"{path} names the tensor file {manifest.tensors!r}, which is not a file of its folder"
        )
    file = inside(folder, manifest.tensors)
    tensors, _ = read_tensors(file, manifest.tensors_sha256)
    for name, tensor in tensors.items():
        if name.startswith("buffers "):
            continue
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CorruptFileError(f"{file}: {name!r} holds NaN or infinity")
    return manifest, tensors


def _of_version_1(fields: dict[str, Any]) -> dict[str, Any]:
    """A manifest of version 1, which has no task, and whose layout names the grouping, too."""
    if "layout" in fields:
        fields["layout"], _, fields["grouping"] = str(fields["layout"]).partition("/")
    task = task_of_manifest(fields)  # which takes its fields out
    return {**fields, "version": 2, "task": task}


def _rebuilt(
    manifest: Manifest,
    tensors: dict[str, Tensor],
    factory: Factory | None,
    layout: Layout | None,
    own_task: type[Task] | None,
) -> Ensemble:
    task = _task(manifest.task, own_task)
    scalings = {}
    for name in task.scalings:
        # Version 1 has one scaling, without a name.
        prefix = f"{name} " if f"{name} shift" in tensors else ""
        found = Scaling(tensors.pop(f"{prefix}shift"), tensors.pop(f"{prefix}factor"))
        if not found.fits(task.scaled_shapes[name]):
            raise CorruptFileError(f"the scaling of the {name} does not fit them")
        scalings[name] = found
    _check_amounts(manifest, tensors)
    streams = StreamReader(tensors)
    rebuild = _rebuilding(manifest, factory, layout)
    members = [_read_member(manifest, entry, streams, rebuild) for entry in manifest.members]
    streams.finish()
    return Ensemble(members, task.scaled_by(scalings))


def _check_amounts(manifest: Manifest, tensors: Mapping[str, Tensor]) -> None:
    """Nothing is made of an ensemble that would be more than its file can fill, or memory hold.

    A masked weight takes a bit of the file; the units of a space have at least one weight each.
    """
    stored = sum(tensor.numel() for tensor in tensors.values())
    counts = []
    for entry in manifest.members:
        sizes = [length for shape in entry.shapes.values() for length in shape]
        counts += [math.prod(shape) for shape in entry.shapes.values()]
        most = max(sizes, default=0)
        if min(sizes, default=0) < 0 or any(count > most for count in entry.units.values()):
            raise CorruptFileError("a member has units without weights, or shapes below zero")
    width = max((tensor.element_size() for tensor in tensors.values()), default=1)
    if sum(counts) > 8 * stored:
        raise CorruptFileError("the members would have more weights than the file holds")
    if sum(counts) * width > tensor_bytes():
        raise CorruptFileError(
            f"the members would take {sum(counts) * width / 1e9:.1f} GB; {RAISED_BY}"
        )


def _check_class(own: type[Task], kind: str) -> None:
    """The caller's class must be the one that was saved, be it from another module."""
    known = own.model_fields["kind"].default if "kind" in own.model_fields else None
    if kind.rpartition(":")[2] not in (own.__qualname__, known):
        raise InputError(f"the task is {kind}, not {own.__qualname__}")


def _task(fields: dict[str, Any], own: type[Task] | None) -> Task:
    """The task that a manifest describes, of the library's or of the caller's own class."""
    kind = fields.get("kind")
    if own is not None:
        _check_class(own, str(kind))
        found = own
        wanted = set(own.model_fields) - {"kind"}
        fields = {key: value for key, value in fields.items() if key in wanted}
    else:
        known = {task.model_fields["kind"].default: task for task in TASKS}
        if kind not in known:
            raise InputError(
                f"the task {kind!r} is your own: give load() its class (task), a command "
                f"--code {kind}"
            )
        found = known[kind]
    task: Task = found.read(fields, source="task")
    return task


_Rebuild = Callable[[MemberEntry, Mapping[str, Tensor]], tuple[nn.Module, Layout]]
"""Makes a member's network of its entry and tensors, with its description."""


def _rebuilding(manifest: Manifest, factory: Factory | None, layout: Layout | None) -> _Rebuild:
    """How the networks of an ensemble are made; what all members share is read once."""
    if manifest.program is None:
        return partial(_rebuilt_network, manifest, factory, layout)
    whole: Layout = LAYOUTS.validate_python(manifest.program["layout"])
    blueprint = blueprint_from_json(manifest.program["blueprint"], set(whole.sizes))
    if manifest.grouping in GROUPINGS:
        whole = grouped(whole, manifest.grouping)
    if whole.sizes != manifest.sizes:
        raise CorruptFileError("the program has spaces of other sizes than the ensemble")
    if set(blueprint.tensors) != blueprint.parameters | set(manifest.buffers):
        raise CorruptFileError("the stored tensors are not those of the program")
    return partial(_rebuilt_program, blueprint, whole)


def _read_member(
    manifest: Manifest, entry: MemberEntry, streams: StreamReader, rebuild: _Rebuild
) -> Member:
    parameters, masks = {}, {}
    for name, shape in entry.shapes.items():
        count = torch.Size(shape).numel()
        if name in manifest.buffers:
            parameters[name] = streams.take(buffer_stream(manifest.buffers[name]), count).view(
                shape
            )
        elif name in manifest.pruned:
            bits = streams.take("bits", -(-count // 8))
            masks[name] = unpack(bits, tuple(shape))
            parameters[name] = streams.values.new_zeros(shape)
            kept = streams.take("values", int(masks[name].count_nonzero()))
            parameters[name][masks[name]] = kept
        else:
            parameters[name] = streams.take("values", count).view(shape)
    units = {}
    for space, size in manifest.sizes.items():
        count = entry.units[space]
        units[space] = torch.arange(size) if count == size else streams.take("units", count).long()
        if count < 1 or not _ascending_below(units[space], size):
            raise CorruptFileError(f"a list of kept units of {space!r} is outside the space")
    network, described = rebuild(entry, parameters)
    described.check(tensors_of(network))
    if set(described.weights) != set(masks):
        raise CorruptFileError("the masks are not those of the network's weights")
    if {space.name: space.size for space in described.spaces} != entry.units:
        raise CorruptFileError("the lists of kept units do not fit the network")
    origin = Origin(manifest.sizes, units, manifest.group_sizes)
    member = Member(network.eval(), described, masks, origin)
    if sum(member.whole_sizes().values()) > _MOST_WEIGHTS:
        raise CorruptFileError("before it was pruned a member would have had absurdly many weights")
    return member


def _rebuilt_program(
    blueprint: Blueprint, layout: Layout, entry: MemberEntry, tensors: Mapping[str, Tensor]
) -> tuple[nn.Module, Layout]:
    """A member's program, at its sizes."""
    if set(tensors) != set(blueprint.tensors):
        raise CorruptFileError("the stored tensors are not those of the program")
    resized = layout.with_sizes(entry.units)
    program = Program(blueprint, tensors, resized.sizes).eval()
    try:  # only a run shows whether all arguments fit
        with Bounded():
            seen = program.seen_(resized)
    except Exception as error:
        raise CorruptFileError(f"the program does not run: {error}") from None
    if not all(link.value is None or link.value in seen for link in resized.links):
        raise CorruptFileError("the layout reads values that the program does not compute")
    return program, resized


def _rebuilt_network(
    manifest: Manifest,
    factory: Factory | None,
    layout: Layout | None,
    entry: MemberEntry,
    tensors: Mapping[str, Tensor],
) -> tuple[nn.Module, Layout]:
    """A member's network of a known kind, or as the caller's function makes it."""
    network, described = _network(manifest, entry, factory, layout)
    if set(dict(network.named_parameters())) != set(tensors):
        raise CorruptFileError("the stored parameters are not those of the described network")
    load_tensors(network, tensors)
    return network, described


def _network(
    manifest: Manifest, entry: MemberEntry, factory: Factory | None, layout: Layout | None
) -> tuple[nn.Module, Layout]:
    """The member's network, its values still to be filled in, and its description."""
    if entry.network is not None:
        return rebuild_network(manifest.layout, manifest.grouping, entry.network)
    if factory is None or layout is None:
        raise InputError(
            "the ensemble holds networks of your own: give load() the function that makes one "
            "(factory) and its layout"
        )
    return factory(), layout.with_sizes(entry.units)


def _ascending_below(units: Tensor, size: int) -> bool:
    return bool((units.diff() > 0).all()) and int(units[0]) >= 0 and int(units[-1]) < size
