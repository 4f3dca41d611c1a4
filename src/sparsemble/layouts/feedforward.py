"""Feed-forward networks: any `nn.Sequential` of linear layers, activations and dropout.

Every layer boundary is a space.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets.gaussian_noise import GaussianNoise
from sparsemble.nets.layers import ELEMENTWISE, flat_layers, is_elementwise
from sparsemble.structure import Layout, Matrix, Role, Slot, Space, SpaceKind


def feedforward_layout(network: nn.Module) -> Layout:
    """Describe a feed-forward `nn.Sequential`.

    >>> from torch import nn
    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> [(space.name, space.size) for space in feedforward_layout(net).spaces]
    [('inputs', 4), ('hidden1', 3), ('outputs', 2)]
    """
    linears, activations = _read(network)
    count = len(linears)
    names = ["inputs", *(f"hidden{k}" for k in range(1, count)), "outputs"]
    spaces = [Space("inputs", linears[0][1].in_features, SpaceKind.INPUT)]
    slots: list[Slot] = []
    for k, (name, linear) in enumerate(linears):
        weight = _joined(name, "weight")
        last = k == count - 1
        spaces.append(
            Space(
                names[k + 1],
                linear.out_features,
                SpaceKind.OUTPUT if last else SpaceKind.HIDDEN,
                None if last else _Composed(tuple(activations[k])),
            )
        )
        slots.append(Slot(weight, 1, names[k], Role.CONSUMER))
        slots.append(Slot(weight, 0, names[k + 1], Role.PRODUCER))
        if linear.bias is not None:
            slots.append(Slot(_joined(name, "bias"), 0, names[k + 1], Role.BIAS))
    layout = Layout(
        tuple(spaces),
        tuple(slots),
        tuple(Matrix(name or "linear", (_joined(name, "weight"),)) for name, _ in linears),
        name="feedforward",
    )
    layout.check(dict(network.named_parameters()))
    return layout


def is_feedforward(network: nn.Module) -> bool:
    """Is it a feed-forward `nn.Sequential`, or meant to be one?"""
    if type(network) not in (nn.Sequential, nn.Linear):
        return False
    layers = [layer for _, layer in flat_layers(network)]
    known = (nn.Linear, nn.Dropout, nn.Flatten, GaussianNoise, nn.Softmax, nn.LogSoftmax)
    if not all(type(layer) in known or is_elementwise(layer) for layer in layers):
        return False
    linears = [layer for layer in layers if type(layer) is nn.Linear]
    return len({id(layer) for layer in linears}) == len(linears)


def _read(
    network: nn.Module,
) -> tuple[list[tuple[str, nn.Linear]], list[list[nn.Module]]]:
    """The linear layers and the activations that follow each of them."""
    linears: list[tuple[str, nn.Linear]] = []
    activations: list[list[nn.Module]] = []
    for name, layer in flat_layers(network):
        if type(layer) is nn.Linear:
            if any(layer is known for _, known in linears):
                raise InputError(
                    f"layer {name!r} is used twice in the network: the feed-forward layout wants "
                    "separate weights; write a Layout by hand for shared ones"
                )
            if linears and linears[-1][1].out_features != layer.in_features:
                raise InputError(
                    f"layer {name!r} takes {layer.in_features} features but the one before it "
                    f"gives {linears[-1][1].out_features}"
                )
            linears.append((name, layer))
            activations.append([])
        elif is_elementwise(layer):
            if not linears:
                raise InputError(f"activation {name!r} ({layer}) stands before any linear layer")
            activations[-1].append(layer)
        elif type(layer) is nn.Flatten and not linears:
            continue
        elif type(layer) not in (nn.Dropout, GaussianNoise):
            raise InputError(_unknown(name, layer))
    if not linears:
        raise InputError(f"the network has no nn.Linear layer: {network}")
    return linears, activations


def _unknown(name: str, layer: nn.Module) -> str:
    if isinstance(layer, nn.Softmax | nn.LogSoftmax):
        return (
            f"layer {name!r} is {layer}: networks return logits, the ensemble applies the softmax "
            "itself; remove this layer"
        )
    known = ", ".join(cls.__name__ for cls, _ in ELEMENTWISE.values())
    return (
        f"layer {name!r} ({layer}) is not known to the feed-forward layout, which takes nn.Linear, "
        f"nn.Dropout, a leading nn.Flatten and {known}; "
        "write a Layout by hand for other networks"
    )


@dataclass(frozen=True)
class _Composed:
    """The activations between two linear layers, one after the other."""

    layers: tuple[nn.Module, ...]

    def __call__(self, values: Tensor) -> Tensor:
        for layer in self.layers:
            values = layer(values)
        return values


def _joined(name: str, leaf: str) -> str:
    return f"{name}.{leaf}" if name else leaf
