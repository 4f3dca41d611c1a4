"""The noise layer: what it appends, and that it goes through every station of a network's life."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from scenarios import mlp, random_masks
from sparsemble.data import ArrayBatches, as_dataset
from sparsemble.layouts import layout_of
from sparsemble.layouts.known import describe_network, rebuild_network
from sparsemble.members import compact, load_tensors, masked
from sparsemble.nets import GaussianNoise
from sparsemble.nets.layers import build_layer, describe_layer
from sparsemble.priors import Gaussian, NoPrior
from sparsemble.samplers import Constant, SGLDSettings
from sparsemble.stages import ChainSettings, draw_samples
from sparsemble.tasks import Regression


def noisy(*widths: int) -> nn.Sequential:
    """A network whose noise is not yet the same for all outputs."""
    network = nn.Sequential(*mlp(*widths), GaussianNoise(widths[-1])).double()
    nn.init.normal_(network[-1].log_variance)
    return network


def test_it_appends_the_logarithms_of_the_variances_to_the_means():
    layer = GaussianNoise(2)
    with torch.no_grad():
        layer.log_variance.copy_(torch.tensor([0.5, -1.0]))
    means = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert layer(means).tolist() == [[1.0, 2.0, 0.5, -1.0], [3.0, 4.0, 0.5, -1.0]]


def test_leading_dimensions_are_kept():
    assert GaussianNoise(3)(torch.zeros(2, 5, 3)).shape == (2, 5, 6)


def test_it_starts_at_a_variance_of_one_and_can_do_so_again():
    layer = GaussianNoise(2)
    assert layer.log_variance.tolist() == [0.0, 0.0]
    nn.init.ones_(layer.log_variance)
    layer.reset_parameters()
    assert layer.log_variance.tolist() == [0.0, 0.0]


def test_its_gradient_is_the_sum_over_the_examples():
    layer = GaussianNoise(2)
    outputs = layer(torch.randn(4, 2))
    (outputs * torch.arange(16.0).view(4, 4)).sum().backward()
    assert layer.log_variance.grad.tolist() == [2 + 6 + 10 + 14, 3 + 7 + 11 + 15]


def test_the_maximum_of_the_likelihood_is_the_mean_square_of_the_residuals():
    # ½(ln σ² + r²/σ²) is least at σ² = mean r².
    layer, residuals = GaussianNoise(1), torch.tensor([[1.0], [-3.0], [2.0]])
    descent = torch.optim.LBFGS(layer.parameters(), max_iter=100)

    def loss() -> torch.Tensor:
        descent.zero_grad()
        value = Regression(num_targets=1).loss(layer(torch.zeros(3, 1)), residuals)
        value.backward()
        return value

    descent.step(loss)
    assert layer.log_variance.exp().item() == pytest.approx((1 + 9 + 4) / 3, rel=1e-3)


# --- layout, groups, pruning -----------------------------------------------------------------


def test_a_layout_does_not_see_it():
    network = noisy(4, 3, 2)
    layout, bare = layout_of(network), layout_of(nn.Sequential(*network[:-1]))
    assert layout.weights == bare.weights == ("0.weight", "2.weight")
    assert layout.families == bare.families
    assert (layout.slots, layout.matrices) == (bare.slots, bare.matrices)


def test_no_prior_holds_the_noise():
    network = noisy(4, 3, 2)
    parameters = dict(network.named_parameters())
    gradients = {name: torch.zeros_like(p) for name, p in parameters.items()}
    with torch.no_grad():
        Gaussian(penalty=1.0).bind(layout_of(network), parameters).add_gradient(gradients)
    assert not gradients["3.log_variance"].any()


@pytest.mark.parametrize("density", [0.0, 0.2, 0.5, 1.0])
def test_a_compact_network_gives_the_same_means_and_the_same_noise(density):
    network = noisy(5, 6, 4, 2)
    layout = layout_of(network)
    masks = random_masks(layout, network, density)
    member = compact(network, layout, masks)
    inputs = torch.randn(7, 5, dtype=torch.float64)
    with torch.no_grad():
        expected = masked(network, masks)(inputs)
        torch.testing.assert_close(member(inputs), expected, rtol=1e-10, atol=1e-10)
    assert torch.equal(member.network[-1].log_variance, network[-1].log_variance)
    assert list(member.masks) == ["0.weight", "2.weight", "4.weight"]


# --- saved and made anew ---------------------------------------------------------------------


def test_it_can_be_described_and_built():
    description = json.loads(json.dumps(describe_layer(GaussianNoise(3))))
    assert description == {"kind": "gaussian_noise", "outputs": 3}
    built = build_layer(description)
    assert type(built) is GaussianNoise
    assert built.log_variance.shape == (3,)


def test_a_network_that_ends_in_it_is_rebuilt_from_its_description():
    network = noisy(4, 3, 2)
    built, layout = rebuild_network(
        "feedforward", "outgoing", describe_network(network, "feedforward")
    )
    load_tensors(built, dict(network.named_parameters()))
    inputs = torch.randn(5, 4, dtype=torch.float64)
    assert torch.equal(built(inputs), network(inputs))
    assert layout.slots == layout_of(network).slots


def test_every_chain_starts_at_a_variance_of_one():
    data = as_dataset(torch.randn(30, 4), torch.randn(30, 2), numeric=True)
    network = mlp(4, 3, 2).float()
    task = Regression(num_targets=2)
    still = ChainSettings(
        sampler=SGLDSettings(temperature=0),
        schedule=Constant(lr=1e-30),
        epochs=1,
        burn_in=0,
        interval=1,
        chains=2,
    )
    layout, batches = layout_of(network), ArrayBatches(data, 30, seed=0)
    samples = draw_samples(network, layout, task, batches, NoPrior(), still)
    for sample in samples:
        torch.testing.assert_close(sample.parameters["noise.log_variance"], torch.zeros(2))
