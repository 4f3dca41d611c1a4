"""The layer kinds a network may be built of: a fixed table.

Layouts recognise layers by it, stacks evaluate them by it, and saved ensembles are rebuilt from
it, so loading a file can only ever create what is listed here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from sparsemble.errors import InputError
from sparsemble.nets.gaussian_noise import GaussianNoise
from sparsemble.settings import LARGEST

ELEMENTWISE: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    "relu": (nn.ReLU, ()),
    "relu6": (nn.ReLU6, ()),
    "tanh": (nn.Tanh, ()),
    "sigmoid": (nn.Sigmoid, ()),
    "gelu": (nn.GELU, ("approximate",)),
    "silu": (nn.SiLU, ()),
    "mish": (nn.Mish, ()),
    "elu": (nn.ELU, ("alpha",)),
    "selu": (nn.SELU, ()),
    "leaky_relu": (nn.LeakyReLU, ("negative_slope",)),
    "softplus": (nn.Softplus, ("beta", "threshold")),
    "softsign": (nn.Softsign, ()),
    "hardtanh": (nn.Hardtanh, ("min_val", "max_val")),
    "hardswish": (nn.Hardswish, ()),
    "identity": (nn.Identity, ()),
}
"""Parameter-free elementwise activations and the constructor arguments that describe them."""

DROPOUT: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {"dropout": (nn.Dropout, ("p",))}
FLATTEN: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    "flatten": (nn.Flatten, ("start_dim", "end_dim"))
}
NOISE: dict[str, tuple[type[nn.Module], tuple[str, ...]]] = {
    "gaussian_noise": (GaussianNoise, ("outputs",))
}


def _is_number(value: Any) -> bool:
    """May it be a limit, which may be infinite?"""
    return type(value) in (int, float) and not math.isnan(value)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and abs(value) <= LARGEST


def _is_dimension(value: Any) -> bool:
    return type(value) is int and abs(value) < _DIMENSIONS


_DIMENSIONS = 64
_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "approximate": lambda value: value in ("none", "tanh"),
    "alpha": _is_finite,
    "negative_slope": _is_finite,
    "beta": lambda value: _is_finite(value) and value > 0,
    "threshold": _is_number,
    "min_val": _is_number,
    "max_val": _is_number,
    "p": lambda value: _is_finite(value) and 0 <= value <= 1,
    "start_dim": _is_dimension,
    "end_dim": _is_dimension,
    "outputs": lambda value: type(value) is int and value > 0,
}
"""What constructor arguments may be: others would make every prediction NaN, or an error."""
_PLAIN = ELEMENTWISE | DROPOUT | FLATTEN | NOISE
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_ELEMENTWISE_TYPES = tuple(cls for cls, _ in ELEMENTWISE.values())


def is_elementwise(layer: nn.Module) -> bool:
    """Is `layer` one of the known activations (not a subclass, which may compute otherwise)?"""
    return type(layer) in _ELEMENTWISE_TYPES


def flat_layers(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The layers of a (possibly nested) `nn.Sequential` in order, with their dotted names."""
    if type(network) is not nn.Sequential:
        yield "", network
        return
    for name, child in network._modules.items():
        assert child is not None
        for inner, layer in flat_layers(child):
            yield f"{name}.{inner}" if inner else name, layer


def note_sizes(layer: nn.Module, leaf: str, shape: Sequence[int]) -> None:
    """Keep a layer's own record of its sizes true after its parameter `leaf` was replaced."""
    if isinstance(layer, nn.Linear) and leaf == "weight":
        layer.out_features, layer.in_features = shape
    elif isinstance(layer, nn.Embedding) and leaf == "weight":
        layer.num_embeddings, layer.embedding_dim = shape
    elif isinstance(layer, nn.RNNBase) and leaf == "weight_ih_l0":
        layer.hidden_size, layer.input_size = shape[0] // _GATES[layer.mode], shape[1]


def describe_layer(layer: nn.Module) -> dict[str, Any]:
    """A JSON description of one layer, from which `build_layer` makes its like."""
    if type(layer) is nn.Linear:
        return {
            "kind": "linear",
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bias": layer.bias is not None,
        }
    for kind, (cls, arguments) in _PLAIN.items():
        if type(layer) is cls:
            return {"kind": kind} | {name: getattr(layer, name) for name in arguments}
    raise InputError(f"layer {layer} is not one of the known kinds (linear, {', '.join(_PLAIN)})")


def build_layer(description: dict[str, Any]) -> nn.Module:
    """The layer that `description` names; anything outside the table is refused."""
    fields = dict(description)
    kind = fields.pop("kind", None)
    if kind == "linear" and set(fields) == {"in_features", "out_features", "bias"}:
        return nn.Linear(
            int(fields["in_features"]), int(fields["out_features"]), bias=bool(fields["bias"])
        )
    if kind in _PLAIN and set(fields) == set(_PLAIN[kind][1]):
        for name, value in fields.items():
            if not _ALLOWED[name](value):
                raise InputError(f"layer description {description} has an impossible {name}")
        if kind == "hardtanh" and not fields["min_val"] < fields["max_val"]:
            raise InputError(f"layer description {description}: min_val is not below max_val")
        return _PLAIN[kind][0](**fields)
    raise InputError(f"layer description {description} fits no known layer kind")


def without_addresses(description: str) -> str:
    """A description without memory addresses, which functions show."""
    return re.sub(r" at 0x[0-9a-f]+", "", description)
