"""Saved ensembles: a folder with a manifest and one tensor file.

Only non-zeros are stored: the kept values, one bit a position of the *compacted* matrices, and the
lists of units that stayed, each as one stream through all members. The manifest names the tensor
file by its checksum and holds what predictions would be silently wrong without: scaling, feature
order, class names, vocabulary. Loading builds networks from a fixed table, or from a function the
caller passes; it never runs code from a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from sparsemble.data import Scaling, Vocabulary
from sparsemble.ensemble.base import BaseEnsemble
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.ensemble.language import LanguageEnsemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.layouts.networks import Description, describe_network, rebuild_network
from sparsemble.members import Member, load_tensors
from sparsemble.members.member import Origin
from sparsemble.settings import Settings
from sparsemble.store import (
    StreamReader,
    StreamWriter,
    inside,
    pack,
    read_json,
    read_tensors,
    tensor_digest,
    unpack,
    write_json,
    write_tensors,
)
from sparsemble.structure import Layout

MANIFEST = "manifest.json"
_TENSOR_FILE = re.compile(r"members-[0-9a-f]{16}\.safetensors")

Factory = Callable[[], nn.Module]


class MemberEntry(Settings):
    """How one member is rebuilt: its network (`None` for the caller's own kind) and sizes."""

    network: Description | None
    shapes: dict[str, list[int]]
    units: dict[str, int]


class Manifest(Settings):
    """What `manifest.json` holds."""

    format: Literal["sparsemble-ensemble"] = "sparsemble-ensemble"
    version: Literal[1] = 1
    tensors: str
    tensors_sha256: str
    layout: str
    sizes: dict[str, int]
    group_sizes: dict[str, int]
    pruned: list[str]
    class_names: list[str] | None
    feature_names: list[str] | None
    vocabulary: list[str] | None = None
    members: list[MemberEntry] = Field(min_length=1)


def save_ensemble(ensemble: BaseEnsemble, folder: Path) -> None:
    """Write an ensemble into `folder`; one that is already there is replaced at one instant."""
    streams = StreamWriter()
    for number, member in enumerate(ensemble):
        for name, parameter in member.network.named_parameters():
            if not parameter.isfinite().all():
                raise InputError(f"member {number} has NaN or infinity in {name}: it is not saved")
        _write_member(member, streams)
    tensors = streams.tensors()
    if isinstance(ensemble, Ensemble):
        tensors |= {"shift": ensemble.scaling.shift, "factor": ensemble.scaling.factor}
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


def _manifest(ensemble: BaseEnsemble, tensors: str, digest: str) -> Manifest:
    first = ensemble[0]
    classes = features = vocabulary = None
    if isinstance(ensemble, LanguageEnsemble):
        vocabulary = list(ensemble.vocabulary.words)
    elif isinstance(ensemble, Ensemble):
        classes = None if ensemble.class_names is None else list(ensemble.class_names)
        features = None if ensemble.feature_names is None else list(ensemble.feature_names)
    return Manifest(
        tensors=tensors,
        tensors_sha256=digest,
        layout=first.layout.name,
        sizes=dict(first.origin.sizes),
        group_sizes=dict(first.origin.group_sizes),
        pruned=list(first.masks),
        class_names=classes,
        feature_names=features,
        vocabulary=vocabulary,
        members=[
            MemberEntry(
                network=describe_network(member.network, member.layout.name),
                shapes={n: list(p.shape) for n, p in member.network.named_parameters()},
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


def load_ensemble(
    folder: Path, *, factory: Factory | None = None, layout: Layout | None = None
) -> BaseEnsemble:
    """Read an ensemble from `folder`.

    One of the caller's own networks needs `factory`, which makes the full network, and its
    hand-written `layout`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder with a saved ensemble")
    folder = ensemble_folder(folder) or folder
    path = inside(folder, MANIFEST)
    manifest: Manifest = Manifest.read_back(read_json(path), path)
    if not _TENSOR_FILE.fullmatch(manifest.tensors):
        raise CorruptFileError(
            f"{path} names the tensor file {manifest.tensors!r}, which is not a file of its folder"
        )
    file = inside(folder, manifest.tensors)
    tensors, _ = read_tensors(file, manifest.tensors_sha256)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CorruptFileError(f"{file}: {name!r} holds NaN or infinity")
    try:
        return _rebuilt(manifest, tensors, factory, layout)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
    except Exception as error:  # a manifest can describe anything
        raise CorruptFileError(f"{path} does not fit its tensor file: {error}") from None


def _rebuilt(
    manifest: Manifest,
    tensors: dict[str, Tensor],
    factory: Factory | None,
    layout: Layout | None,
) -> BaseEnsemble:
    scaling = None
    if manifest.vocabulary is None:
        scaling = Scaling(tensors.pop("shift"), tensors.pop("factor"))
    streams = StreamReader(tensors)
    members = [
        _read_member(manifest, entry, streams, factory, layout) for entry in manifest.members
    ]
    streams.finish()
    if manifest.vocabulary is not None:
        return LanguageEnsemble(members, vocabulary=Vocabulary(tuple(manifest.vocabulary)))
    return Ensemble(
        members,
        scaling=scaling,
        class_names=manifest.class_names,
        feature_names=manifest.feature_names,
    )


def _write_member(member: Member, streams: StreamWriter) -> None:
    for name, parameter in member.network.named_parameters():
        values = parameter.detach().flatten()
        if name in member.masks:
            values, bits = pack(parameter, member.masks[name])
            streams.add("bits", bits)
        streams.add("values", values)
    for space, units in member.origin.units.items():
        if len(units) < member.origin.sizes[space]:
            streams.add("units", units.to(torch.int32))


def _read_member(
    manifest: Manifest,
    entry: MemberEntry,
    streams: StreamReader,
    factory: Factory | None,
    layout: Layout | None,
) -> Member:
    parameters, masks = {}, {}
    for name, shape in entry.shapes.items():
        count = torch.Size(shape).numel()
        if name in manifest.pruned:
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
    network, described = _network(manifest, entry, factory, layout)
    if set(dict(network.named_parameters())) != set(parameters):
        raise CorruptFileError("the stored parameters are not those of the described network")
    load_tensors(network, parameters)
    described.check(dict(network.named_parameters()))
    if set(described.weights) != set(masks):
        raise CorruptFileError("the masks are not those of the network's weights")
    if {space.name: space.size for space in described.spaces} != entry.units:
        raise CorruptFileError("the lists of kept units do not fit the network")
    origin = Origin(manifest.sizes, units, manifest.group_sizes)
    return Member(network.eval(), described, masks, origin)


def _network(
    manifest: Manifest, entry: MemberEntry, factory: Factory | None, layout: Layout | None
) -> tuple[nn.Module, Layout]:
    """The member's network, its values still to be filled in, and its description."""
    if entry.network is not None:
        return rebuild_network(manifest.layout, entry.network)
    if factory is None or layout is None:
        raise InputError(
            "the ensemble holds networks of your own: give load() the function that makes one "
            "(factory) and its layout"
        )
    return factory(), layout.with_sizes(entry.units)


def _ascending_below(units: Tensor, size: int) -> bool:
    return bool((units.diff() > 0).all()) and int(units[0]) >= 0 and int(units[-1]) < size
