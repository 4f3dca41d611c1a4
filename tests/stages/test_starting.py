"""Where chains start: the first where the network stands, others anew, but for what is frozen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.stages.starting import initial_network


def test_frozen_weights_beside_a_bias_that_learns_stay_in_every_chain():
    layer = nn.Linear(4, 3)
    layer.weight.requires_grad_(False)
    other = initial_network(layer, 1, 0)
    assert torch.equal(other.weight, layer.weight)
    assert not torch.equal(other.bias, layer.bias)


def test_no_part_of_attention_is_left_as_it_was():
    attention = nn.MultiheadAttention(8, 2)
    other = initial_network(attention, 1, 0)
    for name in ("in_proj_weight", "out_proj.weight"):
        assert not torch.equal(other.get_parameter(name), attention.get_parameter(name))
    again = initial_network(attention, 1, 0)
    assert torch.equal(again.out_proj.weight, other.out_proj.weight)
    assert torch.equal(initial_network(attention, 0, 0).out_proj.weight, attention.out_proj.weight)


class Scaled(nn.Module):
    """Resets what is its own, as PyTorch's modules do, and not its part."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.empty(3))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.scale)


def test_parts_that_a_module_does_not_reset_start_anew_as_well():
    network = Scaled()
    other = initial_network(network, 1, 0)
    for name, parameter in network.named_parameters():
        assert not torch.equal(other.get_parameter(name), parameter)


def test_a_parametrised_layer_needs_a_function_for_further_chains():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    network = nn.Sequential(layer)
    assert torch.equal(initial_network(network, 0, 0)[0].weight, layer.weight)
    with pytest.raises(InputError, match="module '0' is parametrised: give a function that makes"):
        initial_network(network, 1, 0)


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (lambda: nn.LazyLinear(3), r"parameter '0\.weight' has no shape yet"),
        (lambda: nn.utils.weight_norm(nn.Linear(4, 3)), "has the weight_norm of torch.nn.utils"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_what_cannot_be_copied_is_told(layer, why):
    with pytest.raises(InputError, match=why):
        initial_network(nn.Sequential(layer()), 0, 0)
