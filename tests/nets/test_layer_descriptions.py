"""Descriptions of layers out of files: what would make every prediction NaN is refused at load."""

from __future__ import annotations

import math

import pytest
from torch import nn

from sparsemble.errors import InputError
from sparsemble.nets.layers import build_layer, describe_layer

FINE = [
    nn.LeakyReLU(-0.1),
    nn.Softplus(2.0, 20),
    nn.ELU(0.5),
    nn.Hardtanh(0.0, math.inf),
    nn.GELU("tanh"),
    nn.Dropout(0.3),
    nn.Flatten(1, -1),
]


@pytest.mark.parametrize("layer", FINE, ids=str)
def test_a_layer_is_made_again(layer: nn.Module) -> None:
    assert str(build_layer(describe_layer(layer))) == str(layer)


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "leaky_relu", "negative_slope": math.nan},
        {"kind": "leaky_relu", "negative_slope": 1e300},
        {"kind": "leaky_relu", "negative_slope": "0.1"},
        {"kind": "softplus", "beta": 0, "threshold": 20},
        {"kind": "softplus", "beta": 1.0, "threshold": math.nan},
        {"kind": "elu", "alpha": math.inf},
        {"kind": "hardtanh", "min_val": 1.0, "max_val": -1.0},
        {"kind": "hardtanh", "min_val": math.nan, "max_val": 1.0},
        {"kind": "gelu", "approximate": "roughly"},
        {"kind": "dropout", "p": math.nan},
        {"kind": "dropout", "p": 1.5},
        {"kind": "flatten", "start_dim": 10**9, "end_dim": -1},
        {"kind": "flatten", "start_dim": 1.5, "end_dim": -1},
        {"kind": "gaussian_noise", "outputs": -1},
        {"kind": "gaussian_noise", "outputs": 2.5},
    ],
    ids=str,
)
def test_a_layer_that_could_not_predict_is_refused(description: dict[str, object]) -> None:
    with pytest.raises(InputError, match="layer description"):
        build_layer(description)
