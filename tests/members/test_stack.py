"""A stack computes its members together and changes nothing about any of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scenarios import (
    Recurrent,
    Skip,
    full_masks,
    mlp,
    random_masks,
    recurrent_layout,
    skip_layout,
)
from sparsemble.data import ArrayBatches, Dataset
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, Stack, compact
from sparsemble.nets import GaussianNoise
from sparsemble.priors import Gaussian, GroupSparse, NoPrior, Prior, SumPrior
from sparsemble.samplers import Constant, Exponential
from sparsemble.stages import RetrainSettings, retrain
from sparsemble.structure import Layout
from sparsemble.tasks import Classification, Regression

INPUTS, CLASSES = 6, 3
TASK = Classification(num_classes=CLASSES)


def pruned(network: nn.Module, layout: Layout, density: float) -> Member:
    return compact(network, layout, random_masks(layout, network, density)).eval()


def feedforward(density: float | None, *, bias: bool = True, flatten: bool = False) -> Member:
    """A member of the network 6-7-5-3 that keeps about `density` of its weights."""
    network = mlp(INPUTS, 7, 5, CLASSES, activation=nn.Sigmoid, bias=bias)
    if flatten:
        network = nn.Sequential(nn.Flatten(), *network)
    layout = layout_of(network)
    return Member.dense(network, layout) if density is None else pruned(network, layout, density)


def noisy(density: float | None) -> Member:
    """A member of the network 6-7-2 that ends in the noise of its two outputs, with a dropout."""
    layers = (nn.Linear(INPUTS, 7), nn.Tanh(), nn.Dropout(0.5), nn.Linear(7, 2), GaussianNoise(2))
    network = nn.Sequential(*layers).double()
    nn.init.normal_(network[-1].log_variance)
    layout = layout_of(network)
    if density is None:
        return Member.dense(network, layout).eval()
    return pruned(network, layout, density)


def recurrent(density: float) -> Member:
    return pruned(Recurrent(INPUTS, 5, CLASSES), recurrent_layout(INPUTS, 5, CLASSES), density)


def skip(density: float) -> Member:
    return pruned(Skip(INPUTS, 5, CLASSES), skip_layout(INPUTS, 5, CLASSES), density)


SETS = {
    "of different sizes": lambda: [feedforward(d) for d in (0.15, 0.3, 0.5, 0.9)],
    "dense": lambda: [feedforward(None) for _ in range(3)],
    "dense and pruned": lambda: [feedforward(None), feedforward(0.2), feedforward(0.5)],
    "a single one": lambda: [feedforward(0.3)],
    "without biases": lambda: [feedforward(d, bias=False) for d in (0.2, 0.4, None)],
    "that flatten their inputs": lambda: [feedforward(d, flatten=True) for d in (0.2, 0.5)],
    "dense, that flatten": lambda: [feedforward(None, flatten=True) for _ in range(2)],
    "a dead one among them": lambda: [feedforward(0.0), feedforward(0.4)],
    "of one layer": lambda: [
        pruned(net := nn.Linear(INPUTS, CLASSES).double(), layout_of(net), d) for d in (0.2, 0.6)
    ],
    "that end in noise": lambda: [noisy(d) for d in (0.2, 0.5, None)],
    "a single one that ends in noise": lambda: [noisy(0.4)],
    "a dead one that ends in noise": lambda: [noisy(0.0), noisy(0.6)],
    "recurrent, through vmap": lambda: [recurrent(d) for d in (0.2, 0.35, 0.6)],
    "with a skip, through vmap": lambda: [skip(d) for d in (0.1, 0.3, 0.7)],
    "dense, through vmap": lambda: [
        Member.dense(Skip(INPUTS, 5, CLASSES), skip_layout(INPUTS, 5, CLASSES)) for _ in range(2)
    ],
}

ALL_SETS = pytest.mark.parametrize("members", SETS.values(), ids=SETS.keys(), indirect=True)


@pytest.fixture
def members(request: pytest.FixtureRequest) -> list[Member]:
    torch.manual_seed(5)
    return request.param()


def inputs_for(members: list[Member], count: int = 11) -> Tensor:
    flattens = isinstance(members[0].network, nn.Sequential) and isinstance(
        members[0].network[0], nn.Flatten
    )
    shape = (2, INPUTS // 2) if flattens else (INPUTS,)
    return torch.randn(count, *shape, dtype=torch.float64)


def state(members: list[Member]) -> list[dict[str, Tensor]]:
    return [
        {name: p.detach().clone() for name, p in member.network.named_parameters()}
        for member in members
    ]


def assert_equal_states(first: list[dict[str, Tensor]], second: list[dict[str, Tensor]]) -> None:
    for ours, theirs in zip(first, second, strict=True):
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@ALL_SETS
def test_stacked_logits_are_each_members_own(members):
    inputs = inputs_for(members)
    with torch.no_grad():
        own = torch.stack([member(inputs) for member in members])
        torch.testing.assert_close(Stack(members)(inputs), own, rtol=1e-12, atol=1e-12)


@ALL_SETS
def test_predictions_are_what_members_compute_alone(members):
    inputs = inputs_for(members, count=600)
    with torch.no_grad():
        own = torch.stack([member(inputs) for member in members])
    found = Stack(members).predict(inputs)
    torch.testing.assert_close(found, own, rtol=1e-12, atol=1e-12)
    assert not found.requires_grad


@ALL_SETS
def test_writing_back_an_unchanged_stack_restores_every_bit(members):
    before = state(members)
    stack = Stack(members)
    with torch.no_grad():
        for member in members:
            for parameter in member.network.parameters():
                parameter.fill_(math.nan)
    stack.write_back()
    assert_equal_states(state(members), before)


@ALL_SETS
def test_what_is_written_back_is_what_the_stack_computed_with(members):
    stack = Stack(members)
    with torch.no_grad():
        for parameter in stack.parameters.values():
            parameter.mul_(1.5)
    inputs = inputs_for(members)
    expected = stack.predict(inputs)
    stack.write_back()
    with torch.no_grad():
        own = torch.stack([member(inputs) for member in members])
    torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-12)


@ALL_SETS
def test_gradients_through_the_stack_are_each_members_own(members):
    inputs, targets = inputs_for(members), torch.randint(CLASSES, (11,))
    stack = Stack(members)
    for parameter in stack.parameters.values():
        parameter.requires_grad_()
    sum(cross_entropy(logits, targets) for logits in stack(inputs)).backward()
    expected = []
    for member in members:
        member.zero_grad()
        cross_entropy(member(inputs), targets).backward()
        expected.append({n: p.grad.clone() for n, p in member.network.named_parameters()})
    # Writing gradients back in the parameters' place tells where each member's own are.
    stack.parameters = {name: p.grad for name, p in stack.parameters.items()}
    stack.write_back()
    for member, own in zip(members, expected, strict=True):
        for name, parameter in member.network.named_parameters():
            torch.testing.assert_close(parameter.detach(), own[name], rtol=1e-11, atol=1e-13)


@ALL_SETS
def test_stacking_leaves_the_members_alone(members):
    before = state(members)
    stack = Stack(members)
    for parameter in stack.parameters.values():
        parameter.add_(1.0)
    assert_equal_states(state(members), before)


def test_predicting_switches_dropout_off_and_back_on():
    network = nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Dropout(0.9), nn.Linear(50, 2))
    member = Member.dense(network.double(), layout_of(network))
    stack = Stack([member, member])
    stack.train()
    inputs = torch.randn(5, 4, dtype=torch.float64)
    predicted = stack.predict(inputs)
    assert network.training
    assert not torch.allclose(stack(inputs)[0], predicted[0])
    with torch.no_grad():
        torch.testing.assert_close(predicted[0], member.eval()(inputs), rtol=1e-12, atol=1e-12)


def test_members_of_a_stack_drop_different_hidden_units():
    network = nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Dropout(0.5), nn.Linear(50, 2))
    member = Member.dense(network.double(), layout_of(network))
    stack = Stack([member, member])
    stack.train()
    first, second = stack(torch.randn(5, 4, dtype=torch.float64))
    assert not torch.allclose(first, second)


class TestRetraining:
    settings = RetrainSettings(schedule=Exponential(lr=0.2, factor=1.2), epochs=3, batch_size=10)
    prior = SumPrior(terms=(GroupSparse(penalty=1e-3), Gaussian(penalty=1e-3)))

    def batches(self) -> ArrayBatches:
        generator = torch.Generator().manual_seed(6)
        inputs = torch.randn(60, INPUTS, generator=generator, dtype=torch.float64)
        targets = torch.randint(CLASSES, (60,), generator=generator)
        names = tuple("abc")
        return ArrayBatches(Dataset(inputs, targets, names), batch_size=10, seed=7)

    def retrained(self, members: list[Member], prior: Prior | None = None) -> list[Member]:
        retrain(members, TASK, self.batches(), prior or self.prior, self.settings)
        return members

    def test_members_that_end_in_noise_are_retrained_as_each_would_be_alone(self):
        def fresh() -> list[Member]:
            torch.manual_seed(8)
            members = [noisy(density) for density in (0.3, 0.6, None)]
            for member in members:
                member.network[2].p = 0.0
            return members

        generator = torch.Generator().manual_seed(6)
        inputs = torch.randn(60, INPUTS, generator=generator, dtype=torch.float64)
        targets = inputs[:, :2] + torch.randn(60, 2, generator=generator, dtype=torch.float64)
        data = Dataset(inputs, targets, None)
        together, apart, task = fresh(), fresh(), Regression(num_targets=2)
        for members in (together, *([member] for member in apart)):
            batches = ArrayBatches(data, batch_size=10, seed=7)
            retrain(members, task, batches, self.prior, self.settings)
        for ours, theirs, start in zip(state(together), state(apart), state(fresh()), strict=True):
            for name, value in theirs.items():
                torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-11)
            assert bool((ours["4.log_variance"] != start["4.log_variance"]).all())

    @pytest.mark.parametrize(
        "make", [feedforward, recurrent, skip], ids=["feed-forward", "recurrent", "skip"]
    )
    def test_pruned_weights_stay_zero_and_the_others_move(self, make):
        members = [make(density) for density in (0.2, 0.4, 0.7)]
        before = state(members)
        self.retrained(members)
        for member, old in zip(members, before, strict=True):
            for name, parameter in member.network.named_parameters():
                new = parameter.detach()
                if name in member.masks:
                    mask = member.masks[name]
                    assert not new[~mask].any()
                    new, old_values = new[mask], old[name][mask]
                else:
                    old_values = old[name]
                assert bool((new != old_values).all()), name

    def test_members_retrained_together_end_where_each_would_alone(self):
        def fresh() -> list[Member]:
            torch.manual_seed(8)
            return [feedforward(density) for density in (0.2, 0.4, None)]

        together = state(self.retrained(fresh()))
        alone = [state(self.retrained([member]))[0] for member in fresh()]
        for ours, theirs in zip(together, alone, strict=True):
            for name, value in theirs.items():
                torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-11)

    def test_a_step_is_sgd_on_the_mean_loss_plus_the_prior_with_original_group_sizes(self):
        network = mlp(INPUTS, 4, CLASSES, activation=nn.Tanh)
        layout = layout_of(network)
        masks = full_masks(layout, network)
        masks["0.weight"][:, 2:] = False
        masks["2.weight"][:, 0] = False  # 6-4-3 becomes 2-3-3
        member = compact(network, layout, masks)
        batches = self.batches()
        settings = RetrainSettings(schedule=Constant(lr=0.1), epochs=1, batch_size=60)
        batches.batch_size, batches.steps = 60, 1

        (inputs, targets) = next(batches.epoch(0))
        weights = {
            n: p.detach().clone().requires_grad_() for n, p in member.network.named_parameters()
        }
        hidden = torch.tanh(inputs[:, :2] @ weights["0.weight"].T + weights["0.bias"])
        logits = hidden @ weights["2.weight"].T + weights["2.bias"]
        penalty = sum(math.sqrt(4) * column.norm() for column in weights["0.weight"].unbind(1))
        penalty = penalty + sum(math.sqrt(3) * c.norm() for c in weights["2.weight"].unbind(1))
        (cross_entropy(logits, targets) + 0.05 * penalty).backward()

        retrain([member], TASK, batches, GroupSparse(penalty=0.05), settings)
        for name, parameter in member.network.named_parameters():
            expected = weights[name].detach() - 0.1 * weights[name].grad
            torch.testing.assert_close(parameter.detach(), expected, rtol=1e-12, atol=1e-13)

    def test_the_loss_falls(self):
        members = [feedforward(density) for density in (0.4, 0.7)]
        inputs, targets = self.batches().inputs, self.batches().targets

        def losses() -> list[float]:
            return [float(cross_entropy(member(inputs).detach(), targets)) for member in members]

        before = losses()
        self.retrained(members, NoPrior())
        assert all(new < old for new, old in zip(losses(), before, strict=True))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda: mlp(5, 4, 3, activation=nn.Tanh), "layers"),
        (lambda: mlp(5, 4, 2), "sizes"),
        (lambda: mlp(5, 4, 3).float(), "precision"),
        (lambda: mlp(5, 4, 3, bias=False), "parameters"),
    ],
)
def test_networks_of_different_kinds_make_no_ensemble(other, what):
    networks = (mlp(5, 4, 3), other())
    with pytest.raises(InputError, match=f"member 1 differs from member 0 in its {what}"):
        Ensemble([Member.dense(network, layout_of(network)) for network in networks], TASK)
