"""Saved ensembles: a folder with a manifest and one tensor file.

Only non-zeros are stored: the kept values, one bit per position of the *compacted* matrices, and
the lists of units that stayed, each as one stream through all members. The manifest names the
tensor file by its checksum and holds the task, without which predictions would be silently wrong:
feature order, class names, vocabulary; its scalings are tensors. Loading builds networks and tasks
from fixed tables, or from what the caller passes; it never runs code from a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, TypeAdapter
from torch import Tensor, nn

from sparsemble.data import Scaling
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError, shortened
from sparsemble.layouts.known import Description, describe_network, rebuild_network
from sparsemble.members import Member, load_tensors, tensors_of
from sparsemble.members.member import Origin
from sparsemble.programs import Blueprint, Program
from sparsemble.programs.writing import blueprint_from_json, blueprint_to_json
from sparsemble.settings import Settings
from sparsemble.store import (
    RAISED_BY,
    StreamReader,
    StreamWriter,
    inside,
    pack,
    read_json,
    read_tensors,
    tensor_bytes,
    tensor_digest,
    unpack,
    write_json,
    write_tensors,
)
from sparsemble.structure import GROUPINGS, Layout
from sparsemble.structure.groupings import grouped
from sparsemble.tasks import TASKS, Task, described_task
from sparsemble.tasks.legacy import task_of_manifest

MANIFEST = "manifest.json"
_TENSOR_FILE = re.compile(r"members-[0-9a-f]{16}\.safetensors")

_SAID = 1000
"""Characters of what is wrong with a file, which may name what stands in it."""
_MOST_WEIGHTS = 10**12
"""Of a network before it was pruned."""

Factory = Callable[[], nn.Module]


class MemberEntry(Settings):
    """How one member is rebuilt: its network (`None` for the caller's own kind) and sizes."""

    network: Description | None
    shapes: dict[str, list[int]]
    units: dict[str, int]


class Manifest(Settings):
    """What `manifest.json` holds."""

    format: Literal["sparsemble-ensemble"] = "sparsemble-ensemble"
    version: Literal[2, 3] = 2
    tensors: str
    tensors_sha256: str
    layout: str
    grouping: str
    sizes: dict[str, int]
    group_sizes: dict[str, int]
    pruned: list[str]
    task: dict[str, Any]
    program: dict[str, Any] | None = None
    """Of traced networks: their program and its layout, common to all members."""
    buffers: dict[str, str] = Field(default_factory=dict)
    """Of traced networks: names and types of what is no parameter."""
    members: list[MemberEntry] = Field(min_length=1)


def save_ensemble(ensemble: Ensemble, folder: Path) -> None:
    """Write an ensemble into `folder`; one that is already there is replaced at one instant."""
    streams = StreamWriter()
    for number, member in enumerate(ensemble):
        for name, parameter in member.network.named_parameters():
            if not parameter.isfinite().all():
                raise InputError(f"member {number} has NaN or infinity in {name}: it is not saved")
        _write_member(member, streams)
    tensors = streams.tensors()
    for name, scaling in ensemble.task.scalings.items():
        tensors |= {f"{name} shift": scaling.shift.cpu(), f"{name} factor": scaling.factor.cpu()}
    digest = tensor_digest(tensors)
    name = f"members-{digest[:16]}.safetensors"
    manifest = _manifest(ensemble, name, digest)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot hold an ensemble: {error.strerror}") from None
    write_tensors(inside(folder, name), tensors)
    write_json(inside(folder, MANIFEST), manifest.model_dump())
    for old in folder.glob("members-*.safetensors"):
        if old.name != name:
            old.unlink()


def _manifest(ensemble: Ensemble, tensors: str, digest: str) -> Manifest:
    first = ensemble[0]
    program, buffers = program_of(first), {}
    if program is not None:
        buffers = {n: str(b.dtype).removeprefix("torch.") for n, b in first.network.named_buffers()}
    return Manifest(
        version=2 if program is None else 3,
        program=program,
        buffers=buffers,
        tensors=tensors,
        tensors_sha256=digest,
        layout=first.layout.name,
        grouping=first.layout.grouping,
        sizes=dict(first.origin.sizes),
        group_sizes=dict(first.origin.group_sizes),
        pruned=list(first.masks),
        task=described_task(ensemble.task),
        members=[
            MemberEntry(
                network=describe_network(member.network, member.layout.name),
                shapes={n: list(t.shape) for n, t in tensors_of(member.network).items()},
                units={space: len(units) for space, units in member.origin.units.items()},
            )
            for member in ensemble
        ],
    )


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


def _write_member(member: Member, streams: StreamWriter) -> None:
    for name, parameter in member.network.named_parameters():
        values = parameter.detach().flatten()
        if name in member.masks:
            values, bits = pack(parameter, member.masks[name])
            streams.add("bits", bits)
        streams.add("values", values)
    for buffer in member.network.buffers():
        streams.add(_stream(str(buffer.dtype).removeprefix("torch.")), buffer.flatten())
    for space, units in member.origin.units.items():
        if len(units) < member.origin.sizes[space]:
            streams.add("units", units.to(torch.int32))


_Rebuild = Callable[[MemberEntry, Mapping[str, Tensor]], tuple[nn.Module, Layout]]
"""Makes a member's network of its entry and tensors, with its description."""


def _rebuilding(manifest: Manifest, factory: Factory | None, layout: Layout | None) -> _Rebuild:
    """How the networks of an ensemble are made; what all members share is read once."""
    if manifest.program is None:
        return partial(_rebuilt_network, manifest, factory, layout)
    whole: Layout = _LAYOUTS.validate_python(manifest.program["layout"])
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
            parameters[name] = streams.take(_stream(manifest.buffers[name]), count).view(shape)
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


def _stream(dtype: str) -> str:
    """The stream of buffers of one type; they may hold infinity, as masks of attention do."""
    return f"buffers {dtype}"


_LAYOUTS = TypeAdapter(Layout)


def program_of(member: Member) -> dict[str, Any] | None:
    """The program of a traced network, and its layout, at the sizes it had when it was traced."""
    if not isinstance(member.network, Program):
        return None
    whole = member.layout.ungrouped().with_sizes(member.origin.sizes)
    return {
        "blueprint": blueprint_to_json(member.network.blueprint_),
        "layout": _LAYOUTS.dump_python(whole, mode="json"),
    }


def _rebuilt_program(
    blueprint: Blueprint, layout: Layout, entry: MemberEntry, tensors: Mapping[str, Tensor]
) -> tuple[nn.Module, Layout]:
    """A member's program, at its sizes."""
    if set(tensors) != set(blueprint.tensors):
        raise CorruptFileError("the stored tensors are not those of the program")
    resized = layout.with_sizes(entry.units)
    program = Program(blueprint, tensors, resized.sizes).eval()
    try:  # only a run shows whether all arguments fit
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
