"""Where chains start: the first where the network stands, others anew, but for what is frozen."""

from __future__ import annotations

import torch
from torch import nn

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
