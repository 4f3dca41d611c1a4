"""The kinds of network with a layout of their own: how each is recognised, described and rebuilt.

A saved ensemble names the kind of its networks and holds a description of each as plain JSON; only
what stands in this table can be made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts.feedforward import feedforward_layout, is_feedforward
from sparsemble.layouts.language import language_layout
from sparsemble.nets.language_model import LanguageModel
from sparsemble.nets.layers import build_layer, describe_layer, flat_layers
from sparsemble.nets.without_weights import without_weights
from sparsemble.structure import GROUPINGS, Grouping, Layout
from sparsemble.structure.groupings import grouped

Description = dict[str, Any]


@dataclass(frozen=True)
class NetworkKind:
    """One kind of network; `build` makes it without memory for its weights."""

    default_grouping: str
    fits: Callable[[nn.Module], bool]
    layout: Callable[[nn.Module], Layout]
    describe: Callable[[nn.Module], Description]
    build: Callable[[Description], nn.Module]


def is_known(network: nn.Module) -> bool:
    """Is there a layout for networks of this kind? Others are traced."""
    return any(kind.fits(network) for kind in KINDS.values())


def layout_of(network: nn.Module, grouping: str | Grouping | None = None) -> Layout:
    """The layout of a network, its weights grouped.

    Args:
        network: A feed-forward `nn.Sequential` or a `LanguageModel`.
        grouping: A name from `structure.GROUPINGS` or a function from a layout to its families; by
            default what the paper uses for this kind of network.
    """
    kind = next((kind for kind in KINDS.values() if kind.fits(network)), KINDS["feedforward"])
    chosen = kind.default_grouping if grouping is None else grouping
    layout = grouped(kind.layout(network), chosen)
    layout.check(dict(network.named_parameters()))
    return layout


def describe_network(network: nn.Module, kind: str) -> Description | None:
    """A JSON description of a network of a known kind, `None` for any other.

    A known kind of network under a layout of the caller's own is the caller's to rebuild.
    """
    return KINDS[kind].describe(network) if kind in KINDS else None


def rebuild_network(kind: str, grouping: str, description: Description) -> tuple[nn.Module, Layout]:
    """The network that `description` names, its values still to be filled in, and its layout.

    Groups that code outside the library made are not made again: predictions do without.
    """
    if kind not in KINDS:
        raise InputError(f"{kind!r} is not a known kind of network")
    with without_weights():
        network = KINDS[kind].build(description)
    layout = KINDS[kind].layout(network)
    return network, grouped(layout, grouping) if grouping in GROUPINGS else layout


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
        "shared": network.shared,
        **network.training_settings,
    }


def _build_language_model(description: Description) -> nn.Module:
    needed = {"words", "embedding", "hidden", "dropout", "shared"}
    later = {
        "input_dropout",
        "output_dropout",
        "variational",
        "weight_dropout",
        "activation_penalty",
        "change_penalty",
    }
    return LanguageModel(**_fields(description, needed, later))


def _fields(
    description: Mapping[str, Any], needed: set[str], optional: Set[str] = frozenset()
) -> dict[str, Any]:
    """The fields, checked; the optional ones are not in files of earlier versions."""
    if not needed <= set(description) <= needed | optional:
        known = sorted(needed | optional)
        raise InputError(f"a network is described by {known}, not {sorted(description)}")
    return dict(description)


KINDS = {
    "feedforward": NetworkKind(
        "outgoing",
        is_feedforward,
        feedforward_layout,
        _describe_layers,
        _build_layers,
    ),
    "language": NetworkKind(
        "iss",
        lambda network: type(network) is LanguageModel,
        language_layout,
        _describe_language_model,
        _build_language_model,
    ),
}
"""The table; a layout is named after its key."""
