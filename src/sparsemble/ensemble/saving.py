"""Ensembles are saved as a folder with a manifest and one tensor file.

Only non-zeros are stored: the kept values, one bit per position of the *compacted* matrices, and
the lists of units that stayed, each as one stream through all members. The manifest names the
tensor file by its checksum and holds the task, without which predictions would be silently wrong:
feature order, class names, vocabulary; its scalings are tensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.manifest import LAYOUTS, MANIFEST, Manifest, MemberEntry, buffer_stream
from sparsemble.errors import InputError
from sparsemble.layouts.known import describe_network
from sparsemble.members import Member, tensors_of
from sparsemble.programs import Program
from sparsemble.programs.writing import blueprint_to_json
from sparsemble.store import StreamWriter, inside, pack, tensor_digest, write_json, write_tensors
from sparsemble.tasks import described_task


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


def program_of(member: Member) -> dict[str, Any] | None:
    """The program of a traced network, and its layout, at the sizes it had when it was traced."""
    if not isinstance(member.network, Program):
        return None
    whole = member.layout.ungrouped().with_sizes(member.origin.sizes)
    return {
        "blueprint": blueprint_to_json(member.network.blueprint_),
        "layout": LAYOUTS.dump_python(whole, mode="json"),
    }


def _write_member(member: Member, streams: StreamWriter) -> None:
    for name, parameter in member.network.named_parameters():
        values = parameter.detach().flatten()
        if name in member.masks:
            values, bits = pack(parameter, member.masks[name])
            streams.add("bits", bits)
        streams.add("values", values)
    for buffer in member.network.buffers():
        streams.add(buffer_stream(str(buffer.dtype).removeprefix("torch.")), buffer.flatten())
    for space, units in member.origin.units.items():
        if len(units) < member.origin.sizes[space]:
            streams.add("units", units.to(torch.int32))
