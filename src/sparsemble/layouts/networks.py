"""The network families with a layout of their own: how each is recognised, described and rebuilt.

A saved ensemble names the family in its layout (`language/iss`) and holds a description of each
network as plain JSON; only what stands in this table can be made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts.feedforward import Grouping, feedforward_layout
from sparsemble.layouts.language import LanguageGrouping, language_layout
from sparsemble.layouts.language_model import LanguageModel
from sparsemble.layouts.layers import build_layer, describe_layer, flat_layers
from sparsemble.structure import Layout

AnyGrouping = Grouping | LanguageGrouping
Description = dict[str, Any]


@dataclass(frozen=True)
class NetworkFamily:
    """One kind of network; `build` makes it without memory for its weights."""

    default_grouping: AnyGrouping
    fits: Callable[[nn.Module], bool]
    layout: Callable[[nn.Module, AnyGrouping], Layout]
    describe: Callable[[nn.Module], Description]
    build: Callable[[Description], nn.Module]


def describe_network(network: nn.Module, layout: str) -> Description | None:
    """A JSON description of a network of a known family, `None` for any other.

    A known kind of network under a layout of the caller's own is the caller's to rebuild.
    """
    family = FAMILIES.get(layout.partition("/")[0])
    return None if family is None else family.describe(network)


def rebuild_network(layout: str, description: Description) -> tuple[nn.Module, Layout]:
    """The network that `description` names, its values still to be filled in, and its layout."""
    name, _, grouping = layout.partition("/")
    if name not in FAMILIES:
        raise InputError(f"layout {layout!r} is not a known one")
    family = FAMILIES[name]
    with torch.device("meta"):
        network = family.build(description)
    return network, family.layout(network, cast(AnyGrouping, grouping))


def layout_of(network: nn.Module, grouping: AnyGrouping | None = None) -> Layout:
    """The layout of a network, by its family's default grouping if none is named."""
    family = _family_of(network) or FAMILIES["feedforward"]
    return family.layout(network, grouping or family.default_grouping)


def _family_of(network: nn.Module) -> NetworkFamily | None:
    return next((family for family in FAMILIES.values() if family.fits(network)), None)


def _describe_layers(network: nn.Module) -> Description:
    return {"layers": [[name, describe_layer(layer)] for name, layer in flat_layers(network)]}


def _build_layers(description: Description) -> nn.Module:
    """The layers under the dotted names of the original."""
    layers = _fields(description, {"layers"})["layers"]
    if [name for name, _ in layers] == [""]:
        return build_layer(layers[0][1])
    root = nn.Sequential()
    for name, layer in layers:
        *path, leaf = name.split(".")
        parent: nn.Module = root
        for part in path:
            if part not in parent._modules:
                parent.add_module(part, nn.Sequential())
            parent = parent.get_submodule(part)
        parent.add_module(leaf, build_layer(layer))
    return root


def _describe_language_model(network: nn.Module) -> Description:
    assert isinstance(network, LanguageModel)
    return {
        "words": network.embedding.num_embeddings,
        "embedding": network.embedding.embedding_dim,
        "hidden": [layer.hidden_size for layer in network.lstms],
        "dropout": network.dropout.p,
        "shared": network.shared,
    }


def _build_language_model(description: Description) -> nn.Module:
    known = {"words", "embedding", "hidden", "dropout", "shared"}
    return LanguageModel(**_fields(description, known))


def _fields(description: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    if set(description) != known:
        raise InputError(f"a network is described by {sorted(known)}, not {sorted(description)}")
    return dict(description)


FAMILIES = {
    "feedforward": NetworkFamily(
        "outgoing",
        lambda network: type(network) in (nn.Sequential, nn.Linear),
        feedforward_layout,  # type: ignore[arg-type]
        _describe_layers,
        _build_layers,
    ),
    "language": NetworkFamily(
        "iss",
        lambda network: type(network) is LanguageModel,
        language_layout,  # type: ignore[arg-type]
        _describe_language_model,
        _build_language_model,
    ),
}
"""The table; a layout's name begins with the key."""
