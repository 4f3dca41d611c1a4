"""Saved ensembles: a folder with a manifest and one tensor file.

Only non-zeros are stored: the kept values, one bit a position of the *compacted* matrices, and the
lists of units that stayed. The manifest names the tensor file by its checksum and holds what
predictions would be silently wrong without: scaling, feature order, class names. Loading builds
layers from a fixed table, or from a function the caller passes; it never runs code from a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from sparsemble.data import Scaling
from sparsemble.ensemble.ensemble import Ensemble
from sparsemble.errors import CorruptFileError, InputError
from sparsemble.layouts import feedforward_layout
from sparsemble.layouts.layers import build_layer, describe_layer, flat_layers
from sparsemble.members import Member, load_tensors
from sparsemble.members.member import Origin
from sparsemble.settings import Settings
from sparsemble.store import pack, read_json, read_tensors, unpack, write_json, write_tensors
from sparsemble.structure import Layout

MANIFEST = "manifest.json"
_TENSOR_FILE = re.compile(r"members-[0-9a-f]{16}\.safetensors")

LayerList = list[tuple[str, dict[str, Any]]]


class MemberEntry(Settings):
    """How one member is rebuilt: its layers (or `None` for the caller's own network)."""

    layers: LayerList | None
    shapes: dict[str, list[int]]


class Manifest(Settings):
    """What `manifest.json` holds."""

    format: Literal["sparsemble-ensemble"] = "sparsemble-ensemble"
    version: Literal[1] = 1
    tensors: str
    tensors_sha256: str
    layout: str
    sizes: dict[str, int]
    dense_parameters: int
    dense_flops: int
    class_names: list[str] | None
    feature_names: list[str] | None
    members: list[MemberEntry] = Field(min_length=1)


def save_ensemble(ensemble: Ensemble, folder: Path) -> None:
    """Write an ensemble into `folder`; one that is already there is replaced at one instant."""
    tensors = {"scaling/shift": ensemble.scaling.shift, "scaling/factor": ensemble.scaling.factor}
    entries = []
    for number, member in enumerate(ensemble):
        tensors |= {f"{number}/{key}": value for key, value in _member_tensors(member).items()}
        entries.append(
            MemberEntry(
                layers=_layers_of(member.network),
                shapes={n: list(p.shape) for n, p in member.network.named_parameters()},
            )
        )
    folder.mkdir(parents=True, exist_ok=True)
    pending = folder / ".members.safetensors"
    digest = write_tensors(pending, tensors)
    name = f"members-{digest[:16]}.safetensors"
    pending.replace(folder / name)
    manifest = Manifest(
        tensors=name,
        tensors_sha256=digest,
        layout=ensemble[0].layout.name,
        sizes=dict(ensemble[0].origin.sizes),
        dense_parameters=ensemble.dense_cost[0],
        dense_flops=ensemble.dense_cost[1],
        class_names=_listed(ensemble.class_names),
        feature_names=_listed(ensemble.feature_names),
        members=entries,
    )
    write_json(folder / MANIFEST, manifest.model_dump())
    for old in folder.glob("members-*.safetensors"):
        if old.name != name:
            old.unlink()


def load_ensemble(
    folder: Path,
    *,
    factory: Callable[[], nn.Module] | None = None,
    layout: Layout | None = None,
) -> Ensemble:
    """Read an ensemble from `folder`.

    One of the caller's own networks needs `factory`, which makes the full network, and its
    hand-written `layout`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder with a saved ensemble")
    path = folder / MANIFEST
    fields = read_json(path)
    try:
        manifest: Manifest = Manifest.read(fields, source=str(path))
    except InputError as error:
        raise CorruptFileError(str(error)) from None
    if not _TENSOR_FILE.fullmatch(manifest.tensors):
        raise CorruptFileError(
            f"{path} names the tensor file {manifest.tensors!r}, which is not a file of its folder"
        )
    tensors, _ = read_tensors(folder / manifest.tensors)
    try:
        return _rebuilt(manifest, tensors, factory, layout)
    except (KeyError, TypeError, IndexError, RuntimeError) as error:
        raise CorruptFileError(f"{path} does not fit its tensor file: {error}") from None
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _rebuilt(
    manifest: Manifest,
    tensors: Mapping[str, Tensor],
    factory: Callable[[], nn.Module] | None,
    layout: Layout | None,
) -> Ensemble:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CorruptFileError(f"tensor {name!r} holds NaN or infinity")
    members = []
    for number, entry in enumerate(manifest.members):
        prefix = f"{number}/"
        own = {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        members.append(_rebuilt_member(manifest, entry, own, factory, layout))
    return Ensemble(
        members,
        scaling=Scaling(tensors["scaling/shift"], tensors["scaling/factor"]),
        class_names=manifest.class_names,
        feature_names=manifest.feature_names,
        dense_cost=(manifest.dense_parameters, manifest.dense_flops),
    )


def _member_tensors(member: Member) -> dict[str, Tensor]:
    tensors = {}
    for name, parameter in member.network.named_parameters():
        if name in member.masks and not bool(member.masks[name].all()):
            values, bits = pack(parameter, member.masks[name])
            tensors[f"values/{name}"], tensors[f"mask/{name}"] = values, bits
        else:
            tensors[f"dense/{name}"] = parameter.detach()
    for space, units in member.origin.units.items():
        if len(units) < member.origin.sizes[space]:
            tensors[f"units/{space}"] = _narrow(units)
    for family, sizes in member.origin.group_sizes.items():
        same = bool((sizes == sizes[0]).all())
        tensors[f"groups/{family}"] = _narrow(sizes[:1] if same else sizes)
    return tensors


def _rebuilt_member(
    manifest: Manifest,
    entry: MemberEntry,
    tensors: Mapping[str, Tensor],
    factory: Callable[[], nn.Module] | None,
    layout: Layout | None,
) -> Member:
    parameters, masks = {}, {}
    for name, shape in entry.shapes.items():
        if f"values/{name}" in tensors:
            parameters[name], masks[name] = unpack(
                tensors[f"values/{name}"], tensors[f"mask/{name}"], tuple(shape)
            )
        else:
            parameters[name] = tensors[f"dense/{name}"]
            if list(parameters[name].shape) != shape:
                raise CorruptFileError(f"parameter {name!r} has not the shape {shape}")
    units = {
        space: tensors[f"units/{space}"].long() if f"units/{space}" in tensors else torch.arange(n)
        for space, n in manifest.sizes.items()
    }
    for space, kept in units.items():
        if len(kept) == 0 or kept.min() < 0 or kept.max() >= manifest.sizes[space]:
            raise CorruptFileError(f"a list of kept units of {space!r} is outside the space")
    if entry.layers is not None:
        network: nn.Module = _sequential(entry.layers)
        described = feedforward_layout(network, _grouping(manifest.layout))
    elif factory is None or layout is None:
        raise InputError(
            "the ensemble holds networks of your own: give load() the function that makes one "
            "(factory) and its layout"
        )
    else:
        network = factory()
        described = layout.with_sizes({space: len(kept) for space, kept in units.items()})
    if set(dict(network.named_parameters())) != set(parameters):
        raise CorruptFileError("the stored parameters are not those of the described network")
    load_tensors(
        network.to_empty(device="cpu") if entry.layers is not None else network, parameters
    )
    described.check(dict(network.named_parameters()))
    if any(space.size != len(units[space.name]) for space in described.spaces):
        raise CorruptFileError("the lists of kept units do not fit the network")
    for name in described.weights:
        if name not in masks:
            masks[name] = torch.ones(parameters[name].shape, dtype=torch.bool)
    groups = {
        family.name: tensors[f"groups/{family.name}"]
        .long()
        .expand(described.space(family.space).size)
        for family in described.families
    }
    network.eval()
    return Member(network, described, masks, Origin(manifest.sizes, units, groups))


def _layers_of(network: nn.Module) -> LayerList | None:
    """The network as a list of known layers, or `None` if it is something else."""
    if type(network) is not nn.Sequential:
        return None
    return [(name, describe_layer(layer)) for name, layer in flat_layers(network)]


def _sequential(layers: LayerList) -> nn.Sequential:
    """An `nn.Sequential` with the dotted names of the original, not yet filled."""
    root = nn.Sequential()
    with torch.device("meta"):
        for name, description in layers:
            *path, leaf = name.split(".")
            parent: nn.Module = root
            for part in path:
                if part not in parent._modules:
                    parent.add_module(part, nn.Sequential())
                parent = parent.get_submodule(part)
            parent.add_module(leaf, build_layer(description))
    return root


def _grouping(name: str) -> Literal["outgoing", "incoming"]:
    if name == "feedforward/incoming":
        return "incoming"
    if name == "feedforward/outgoing":
        return "outgoing"
    raise CorruptFileError(f"layout {name!r} is not a known one")


def _narrow(numbers: Tensor) -> Tensor:
    """Integers in as few bytes as they need."""
    for dtype in (torch.uint8, torch.int16, torch.int32):
        if int(numbers.max()) <= torch.iinfo(dtype).max:
            return numbers.to(dtype)
    return numbers


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return list(names) if names is not None else None
