"""Priors: their value is the term they add to the mean loss, their gradient its derivative."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from scenarios import mlp, set_parameters
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.priors import BoundPrior, Gaussian, GroupSparse, Laplace, NoPrior, Prior, SumPrior

PENALTY = 0.03


def half_square(w: Tensor) -> Tensor:
    return w.square().sum() / 2


def absolute(w: Tensor) -> Tensor:
    return w.abs().sum()


def outgoing(w: Tensor) -> Tensor:
    """A column of `w` is what one unit sends to the next layer: `√rows·‖column‖` each."""
    return sum(math.sqrt(len(w)) * column.norm() for column in w.unbind(1))


def incoming(w: Tensor) -> Tensor:
    """A row of `w` is what one unit reads: `√columns·‖row‖` each."""
    return sum(math.sqrt(w.shape[1]) * row.norm() for row in w.unbind(0))


def network() -> nn.Sequential:
    return mlp(4, 3, 2, 2, activation=nn.Tanh)


def value_and_gradients(
    prior: Prior, net: nn.Module, grouping: str = "outgoing"
) -> tuple[Tensor, dict[str, Tensor]]:
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    bound = prior.bind(layout_of(net, grouping), parameters)
    gradients = {name: torch.zeros_like(p) for name, p in parameters.items()}
    bound.add_gradient(gradients)
    return bound.value(), gradients


@pytest.mark.parametrize(
    ("prior", "grouping", "energy"),
    [
        (
            Gaussian(penalty=PENALTY),
            "outgoing",
            lambda a, b, c: PENALTY * (half_square(a) + half_square(b) + half_square(c)),
        ),
        (
            Laplace(penalty=PENALTY),
            "outgoing",
            lambda a, b, c: PENALTY * (absolute(a) + absolute(b) + absolute(c)),
        ),
        (
            GroupSparse(penalty=PENALTY),
            "outgoing",
            lambda a, b, c: PENALTY * (outgoing(a) + outgoing(b) + outgoing(c)),
        ),
        (
            # Outputs are no hidden units: the last matrix is in no incoming group.
            GroupSparse(penalty=PENALTY),
            "incoming",
            lambda a, b, c: PENALTY * (incoming(a) + incoming(b)) + 0 * c.sum(),
        ),
        (
            SumPrior(terms=(Gaussian(penalty=0.5), Laplace(penalty=0.2), GroupSparse(penalty=2))),
            "outgoing",
            lambda a, b, c: sum(
                0.5 * half_square(w) + 0.2 * absolute(w) + 2 * outgoing(w) for w in (a, b, c)
            ),
        ),
        (NoPrior(), "outgoing", lambda a, b, c: 0 * (a.sum() + b.sum() + c.sum())),
    ],
    ids=["gaussian", "laplace", "group sparse", "group sparse, incoming", "sum", "none"],
)
def test_value_and_gradient_are_those_of_the_penalty(prior, grouping, energy):
    net = network()
    expected = energy(net[0].weight, net[2].weight, net[4].weight)
    expected.backward()
    value, gradients = value_and_gradients(prior, net, grouping)
    torch.testing.assert_close(
        value.double(), expected.detach(), rtol=1e-12, atol=1e-12, check_dtype=False
    )
    for name, parameter in net.named_parameters():
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradients[name], wanted, rtol=1e-12, atol=1e-12)


ALL_PRIORS = pytest.mark.parametrize(
    "prior",
    [
        Gaussian(penalty=1.0),
        Laplace(penalty=1.0),
        GroupSparse(penalty=1.0),
        SumPrior(terms=(Gaussian(penalty=1.0), GroupSparse(penalty=1.0))),
        NoPrior(),
    ],
    ids=lambda prior: prior.kind,
)


@ALL_PRIORS
def test_biases_get_no_gradient(prior):
    net = network()
    _, gradients = value_and_gradients(prior, net)
    assert all(not gradient.any() for name, gradient in gradients.items() if "bias" in name)


@ALL_PRIORS
def test_biases_add_nothing_to_the_value(prior):
    net = network()
    before, _ = value_and_gradients(prior, net)
    with torch.no_grad():
        net[0].bias.add_(100.0)
    after, _ = value_and_gradients(prior, net)
    assert torch.equal(before, after)


@ALL_PRIORS
def test_at_zero_there_is_no_gradient_and_no_nan(prior):
    net = network()
    for parameter in net.parameters():
        parameter.data.zero_()
    value, gradients = value_and_gradients(prior, net)
    assert float(value) == 0
    assert all(not gradient.any() for gradient in gradients.values())


@ALL_PRIORS
def test_the_gradient_is_added_to_what_is_there(prior):
    net = network()
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    _, alone = value_and_gradients(prior, net)
    gradients = {name: torch.ones_like(p) for name, p in parameters.items()}
    prior.bind(layout_of(net), parameters).add_gradient(gradients)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, 1 + alone[name], rtol=1e-14, atol=1e-14)


@ALL_PRIORS
def test_a_bound_prior_follows_the_weights_it_is_bound_to(prior):
    net = network()
    bound = prior.bind(layout_of(net), dict(net.named_parameters()))
    with torch.no_grad():
        net[0].weight.mul_(3.0)
        renewed = prior.bind(layout_of(net), dict(net.named_parameters()))
        torch.testing.assert_close(bound.value(), renewed.value())


@ALL_PRIORS
def test_a_stack_of_members_has_the_sum_of_their_values_and_their_own_gradients(prior):
    nets = [network(), network()]
    alone = [value_and_gradients(prior, net) for net in nets]
    stacked = {
        name: torch.stack([dict(net.named_parameters())[name].detach() for net in nets])
        for name, _ in nets[0].named_parameters()
    }
    gradients = {name: torch.zeros_like(tensor) for name, tensor in stacked.items()}
    bound = prior.bind(layout_of(nets[0]), stacked, batch_dims=1)
    bound.add_gradient(gradients)
    torch.testing.assert_close(bound.value(), alone[0][0] + alone[1][0])
    for name, gradient in gradients.items():
        own = torch.stack([member_gradients[name] for _, member_gradients in alone])
        torch.testing.assert_close(gradient, own)


def test_group_sparse_by_hand():
    # Unit 0 sends (3, 4), unit 1 (0, 0), unit 2 (0, −2): √2·(5 + 0 + 2), times λ = 10.
    net = mlp(3, 2)
    set_parameters(net, {"0.weight": [[3.0, 0.0, 0.0], [4.0, 0.0, -2.0]]})
    value, gradients = value_and_gradients(GroupSparse(penalty=10), net)
    root = math.sqrt(2)
    assert float(value) == pytest.approx(70 * root)
    expected = torch.tensor([[6.0, 0.0, 0.0], [8.0, 0.0, -10.0]], dtype=torch.float64) * root
    torch.testing.assert_close(gradients["0.weight"], expected)


def test_given_group_sizes_keep_their_weight_after_compaction():
    net = mlp(2, 1)
    set_parameters(net, {"0.weight": [[3.0, 4.0]]})
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    sizes = {"outgoing inputs": 16}
    bound = GroupSparse(penalty=1).bind(layout_of(net), parameters, sizes=sizes)
    assert float(bound.value()) == pytest.approx(4 * (3 + 4))


class TestScales:
    """`penalty` is the coefficient in the mean loss, `rate` that in the prior's own density."""

    @pytest.mark.parametrize("kind", [Gaussian, Laplace, GroupSparse])
    def test_the_rate_is_n_times_the_penalty(self, kind):
        assert kind(penalty=2e-5).rate(60_000) == pytest.approx(1.2)

    @pytest.mark.parametrize("kind", [Gaussian, Laplace, GroupSparse])
    def test_a_prior_made_from_a_rate_has_that_rate(self, kind):
        prior = kind.from_rate(3.0, num_data=1_500)
        assert prior.penalty == pytest.approx(0.002)
        assert prior.rate(1_500) == pytest.approx(3.0)

    def test_a_gaussian_of_rate_r_has_variance_one_over_r_in_the_potential(self):
        # N·value is −log p(θ): θ²/(2σ²) with σ² = 1/r = 4, at θ = 6.
        net = mlp(1, 1, bias=False)
        set_parameters(net, {"0.weight": [[6.0]]})
        value, _ = value_and_gradients(Gaussian.from_rate(0.25, num_data=100), net)
        assert 100 * float(value) == pytest.approx(36 / 8)

    @pytest.mark.parametrize("num_data", [0, -1])
    def test_a_rate_without_data_is_refused(self, num_data):
        with pytest.raises(InputError, match=f"num_data = {num_data}"):
            Gaussian.from_rate(1.0, num_data=num_data)


@pytest.mark.parametrize("kind", [Gaussian, Laplace, GroupSparse])
@pytest.mark.parametrize("penalty", [-0.1, math.nan, math.inf, "strong"])
def test_an_impossible_penalty_is_refused_with_the_value_named(kind, penalty):
    with pytest.raises(InputError, match=f"penalty = {penalty!r}"):
        kind(penalty=penalty)


def test_a_bad_term_of_a_sum_is_named():
    terms = [{"kind": "gaussian", "penalty": 1}, {"kind": "laplace", "penalty": -2}]
    with pytest.raises(InputError, match=r"terms\.1.*penalty = -2"):
        SumPrior(terms=terms)


def test_a_sum_of_nothing_known_is_refused():
    with pytest.raises(InputError, match="ridge"):
        SumPrior(terms=[{"kind": "ridge", "penalty": 1}])


@pytest.mark.parametrize(
    "prior",
    [
        Gaussian(penalty=0.3),
        Laplace(penalty=0.3),
        GroupSparse(penalty=0.3),
        SumPrior(terms=(GroupSparse(penalty=0.3),)),
    ],
)
def test_a_proximal_step_ends_where_nothing_nearby_is_better(prior):
    """The definition: it minimises half the squared distance plus the step times the penalty."""
    step = 0.4
    net = network()
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    moved = {name: tensor.clone() for name, tensor in start.items()}
    bound = prior.bind(layout_of(net, "outgoing"), moved)
    bound.shrink(step)

    def energy() -> float:
        distance = sum((moved[name] - start[name]).square().sum() / 2 for name in moved)
        return float(distance + step * bound.value())

    least = energy()
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        kept = {name: tensor.clone() for name, tensor in moved.items()}
        for tensor in moved.values():
            tensor += 1e-3 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        assert energy() > least
        for name, tensor in moved.items():
            tensor.copy_(kept[name])


def test_a_prior_without_a_proximal_step_says_what_to_do_instead():
    class Plain(BoundPrior):
        def value(self):
            return torch.zeros(())

        def add_gradient(self, gradients):
            return

    with pytest.raises(InputError, match="Plain has no proximal step"):
        Plain().shrink(0.1)
