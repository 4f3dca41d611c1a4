"""Prior and noise at their own pace: the law of the split scheme, exact zeros, and its limits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.priors import Gaussian, GroupSparse, NoPrior
from sparsemble.samplers import SGHMC, SGLD, Constant, PSGLDSettings
from sparsemble.stages import ChainSettings
from sparsemble.stages.updates import Update

CURVATURE, LR, NUM_DATA = 2.0, 0.05, 50


def weights(columns: int = 4000, rows: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(columns, rows, bias=False, dtype=torch.float64))
    nn.init.normal_(network[0].weight, std=0.1)
    return network


def descended(
    network: nn.Sequential, prior, steps: int, *, temperature=0.0, noise="gaussian", **how
):
    """After so many steps on the loss `a·‖θ‖²/2`, as of a quadratic likelihood."""
    weight = network[0].weight
    parameters = {"0.weight": weight}
    sampler = SGLD([weight], LR, num_data=NUM_DATA, temperature=temperature, noise=noise, seed=3)
    update = Update(sampler, prior.bind(layout_of(network, "outgoing"), parameters), **how)
    seen = []
    for step in range(1, steps + 1):
        weight.grad = CURVATURE * weight.detach()
        update(step, {"0.weight": weight.grad})
        seen.append(weight.detach().square().mean())
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "rademacher"])
@pytest.mark.parametrize("every", [1, 5])
def test_the_stationary_variance_of_the_split_scheme_is_that_of_its_closed_form(every, noise):
    penalty, temperature = 0.7, 1.3
    seen = descended(
        weights(),
        Gaussian(penalty=penalty),
        steps=2000,
        temperature=temperature,
        noise=noise,
        every=every,
        prior_step="proximal",
    )
    kick = 2 * every * LR * temperature / NUM_DATA
    shrunk = (1 + every * LR * penalty) ** 2
    expected = kick / (shrunk - (1 - LR * CURVATURE) ** (2 * every))
    after_the_prior = torch.stack(seen[every - 1 :: every][20:])
    # 20,000 weights, each of a variance with relative error √2: a fifth of what is allowed here.
    assert float(after_the_prior.mean()) == pytest.approx(expected, rel=0.01)


def test_the_law_tends_to_the_posteriors_however_rarely_prior_and_noise_act():
    penalty = 0.7
    limit = 1 / (NUM_DATA * (CURVATURE + penalty))
    for every in (1, 4, 16):
        lr = 1e-5
        kick = 2 * every * lr / NUM_DATA
        law = kick / ((1 + every * lr * penalty) ** 2 - (1 - lr * CURVATURE) ** (2 * every))
        assert law == pytest.approx(limit, rel=1e-3)


def test_every_step_by_the_gradient_is_the_samplers_own_step():
    split, plain = weights(30), weights(30)
    prior = GroupSparse(penalty=0.01)
    descended(split, prior, steps=7, temperature=0.5)
    weight = plain[0].weight
    sampler = SGLD([weight], LR, num_data=NUM_DATA, temperature=0.5, seed=3)
    bound = prior.bind(layout_of(plain, "outgoing"), {"0.weight": weight})
    for _ in range(7):
        weight.grad = CURVATURE * weight.detach()
        with torch.no_grad():
            bound.add_gradient({"0.weight": weight.grad})
        sampler.step()
    assert torch.equal(split[0].weight, weight)


def test_a_gradient_that_acts_every_fourth_step_moves_as_far_as_four():
    network = weights(30)
    start = network[0].weight.detach().clone()
    weight = network[0].weight
    sampler = SGLD([weight], LR, num_data=NUM_DATA, temperature=0.0)
    prior = Gaussian(penalty=0.1)
    update = Update(
        sampler, prior.bind(layout_of(network, "outgoing"), {"0.weight": weight}), every=4
    )
    for step in range(1, 5):
        weight.grad = torch.zeros_like(weight)
        update(step, {"0.weight": weight.grad})
    assert torch.allclose(weight, start * (1 - 4 * LR * 0.1), rtol=1e-12)


def test_the_proximal_step_takes_whole_groups_to_exactly_zero_and_the_gradient_does_not():
    penalty = 0.4
    by_steps, by_gradient = weights(60), weights(60)
    descended(by_steps, GroupSparse(penalty=penalty), 200, every=5, prior_step="proximal")
    descended(by_gradient, GroupSparse(penalty=penalty), 200)
    assert bool((by_steps[0].weight == 0).all())
    assert not bool((by_gradient[0].weight == 0).any())


def test_small_groups_go_and_large_ones_lose_the_same_length():
    network = weights(2, 3)
    weight = network[0].weight
    with torch.no_grad():
        weight.copy_(torch.tensor([[0.1, 3.0], [0.0, 4.0], [0.1, 0.0]]))
    prior = GroupSparse(penalty=1.0)
    bound = prior.bind(layout_of(network, "outgoing"), {"0.weight": weight})
    bound.shrink(0.2)
    shrunk = 0.2 * math.sqrt(3)  # the groups are columns of three weights
    expected = torch.tensor([[0.0, 3.0], [0.0, 4.0], [0.0, 0.0]]) * (1 - shrunk / 5)
    assert torch.allclose(weight, expected.double())
    assert bool((weight[:, 0] == 0).all())


def test_without_a_prior_noise_alone_acts_every_kth_step():
    network = weights(30)
    before = network[0].weight.detach().clone()
    weight = network[0].weight
    sampler = SGLD([weight], LR, num_data=NUM_DATA, temperature=1.0)
    bound = NoPrior().bind(layout_of(network, "outgoing"), {"0.weight": weight})
    update = Update(sampler, bound, every=3, prior_step="proximal")
    moved = []
    for step in range(1, 7):
        weight.grad = torch.zeros_like(weight)
        update(step, {})
        moved.append(not torch.equal(weight, before))
        before = weight.detach().clone()
    assert moved == [False, False, True, False, False, True]
    assert sampler.param_groups[0]["temperature"] == 1.0


@pytest.mark.parametrize("sampler", [SGLD, SGHMC])
@pytest.mark.parametrize("prior_step", ["gradient", "proximal"])
def test_the_prior_weighs_the_same_beside_every_sampler_however_it_acts(sampler, prior_step):
    network = weights(1, 1)
    weight, steps = network[0].weight, 3000
    parameters = {"0.weight": weight}
    bound = Gaussian(penalty=1.0).bind(layout_of(network, "outgoing"), parameters)
    own = sampler([weight], 0.01, num_data=NUM_DATA, temperature=0.0)
    update = Update(own, bound, prior_step=prior_step)
    for step in range(1, steps + 1):
        weight.grad = weight.detach() - 1  # of (θ − 1)²/2, beside θ²/2
        update(step, {"0.weight": weight.grad})
    assert weight.item() == pytest.approx(0.5, abs=0.01)


def test_samplers_that_move_every_weight_at_a_rate_of_its_own_have_no_proximal_step():
    with pytest.raises(InputError, match=r"'proximal' is not for PSGLD.*use 'gradient'"):
        ChainSettings(sampler=PSGLDSettings(), schedule=Constant(lr=0.1), prior_step="proximal")
