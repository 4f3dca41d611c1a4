"""Networks for pictures."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from sparsemble.nets import ResNet, SmallCNN
from sparsemble.nets.resnet import ResidualBlock


def test_flat_rows_of_pixels_are_read_as_the_pictures_they_are():
    pictures = torch.randn(5, 3, 8, 6)
    for network in (SmallCNN((3, 8, 6), [4, 5], 2), ResNet((3, 8, 6), [4, 5], 2)):
        network.eval()
        assert torch.equal(network(pictures.flatten(1)), network(pictures))


def test_a_small_network_is_convolution_normalisation_relu_pooling_and_a_linear_layer():
    network = SmallCNN((2, 5, 7), [3], 4).double().eval()
    convolution, norm, *_ = network.blocks[0]
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        norm.weight.normal_()
        norm.bias.normal_()
    pictures = torch.randn(6, 2, 5, 7, dtype=torch.float64)
    read = F.conv2d(pictures, convolution.weight, padding=1)
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    shift = norm.bias - norm.running_mean * scale
    positive = (read * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)).clamp(min=0)
    pooled = positive[:, :, :4, :6].unflatten(3, (3, 2)).unflatten(2, (2, 2)).amax((3, 5))
    expected = pooled.flatten(1) @ network.head.weight.t() + network.head.bias
    torch.testing.assert_close(network(pictures), expected, rtol=1e-12, atol=1e-12)


def test_statistics_follow_the_pictures_in_training_only():
    network, pictures = SmallCNN((1, 4, 4), [3], 2), 3 + torch.randn(50, 16)
    norm = network.blocks[0][1]
    network.eval()(pictures)
    assert not norm.running_mean.any()
    network.train()(pictures)
    read = network.blocks[0][0](pictures.view(50, 1, 4, 4))
    torch.testing.assert_close(norm.running_mean, 0.1 * read.mean((0, 2, 3)))


def test_a_residual_network_has_six_layers_for_a_block_of_each_stage_and_two_more():
    for blocks in (1, 3):
        network = ResNet((3, 32, 32), [16, 32, 64], 10, blocks=blocks)
        layers = [
            name
            for name, layer in network.named_modules()
            if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in name
        ]
        assert len(layers) == 6 * blocks + 2


def test_resnet_20_has_the_published_number_of_weights():
    # He et al. (2016), Table 6: 0.27 million; with projections 0.272 million and some.
    network = ResNet((3, 32, 32), [16, 32, 64], 10, blocks=3)
    assert 0.265e6 < sum(p.numel() for p in network.parameters()) < 0.275e6


def test_a_block_that_adds_nothing_passes_positive_values_on():
    block = ResidualBlock(3, 3).double().eval()
    nn.init.zeros_(block.residual[-1].weight)
    values = torch.rand(2, 3, 5, 5, dtype=torch.float64)
    assert torch.equal(block(values), values)


def test_all_stages_but_the_first_halve_the_picture():
    network = ResNet((1, 9, 12), [4, 5, 6], 2, blocks=1).eval()
    values = network.stem(torch.zeros(1, 1, 9, 12))
    sizes = [(values := stage(values)).shape[1:] for stage in network.stages]
    assert sizes == [(4, 9, 12), (5, 5, 6), (6, 3, 3)]
