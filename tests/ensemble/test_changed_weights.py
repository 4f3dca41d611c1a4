"""What an ensemble predicts is what its members predict now, however their weights changed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from scenarios import mlp, random_masks
from sparsemble.data import ArrayBatches, Dataset
from sparsemble.ensemble import Ensemble
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.nets import GaussianNoise, LanguageModel
from sparsemble.priors import NoPrior
from sparsemble.samplers import Constant
from sparsemble.stages import RetrainSettings, retrain
from sparsemble.tasks import Classification, LanguageModelling, Regression

INPUTS, CLASSES = 6, 3
COUNTS = pytest.mark.parametrize("count", [1, 2, 15, 16, 40, 600])
"""Examples: one, few, many, and more than are computed at a time."""


def member(density: float = 0.5) -> Member:
    network = mlp(INPUTS, 9, 7, CLASSES, activation=nn.ReLU)
    layout = layout_of(network)
    return compact(network, layout, random_masks(layout, network, density))


@pytest.fixture
def ensemble() -> Ensemble:
    torch.manual_seed(3)
    return Ensemble([member(d) for d in (0.3, 0.5, 0.8)], Classification(num_classes=CLASSES))


def inputs(count: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, INPUTS, generator=generator, dtype=torch.float64)


def one_by_one(ensemble: Ensemble, values: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.stack([copy.deepcopy(m).eval()(values).softmax(-1) for m in ensemble]).mean(0)


def first_weight(ensemble: Ensemble) -> nn.Parameter:
    return ensemble[1].network[0].weight


def train_a_member(ensemble: Ensemble) -> None:
    optimiser = torch.optim.Adam(ensemble[2].parameters(), lr=0.1)
    ensemble[2](inputs()).square().sum().backward()
    optimiser.step()


def retrain_them(ensemble: Ensemble) -> None:
    data = Dataset(inputs(20), torch.arange(20) % CLASSES, tuple("abc"))
    settings = RetrainSettings(schedule=Constant(lr=0.5), epochs=2, batch_size=10)
    batches = ArrayBatches(data, batch_size=10, seed=0)
    retrain(list(ensemble), ensemble.task, batches, NoPrior(), settings)


def doubled(module: nn.Module) -> dict[str, Tensor]:
    state = module.state_dict()
    return {name: 2 * t if "network" in name else t for name, t in state.items()}


def load_a_member(ensemble: Ensemble, **how: bool) -> None:
    ensemble[0].load_state_dict(doubled(ensemble[0]), **how)


def load_all(ensemble: Ensemble) -> None:
    ensemble.load_state_dict(doubled(ensemble))


@torch.no_grad()
def write_in_place(ensemble: Ensemble) -> None:
    first_weight(ensemble).mul_(3)


@torch.inference_mode()
def write_in_inference_mode(ensemble: Ensemble) -> None:
    first_weight(ensemble).mul_(3)


def write_a_bias(ensemble: Ensemble) -> None:
    ensemble[2].network[4].bias.detach().add_(torch.tensor([1.0, -1.0, 0.0]))


def other_memory(ensemble: Ensemble) -> None:
    first_weight(ensemble).data = 3 * first_weight(ensemble).data


def another_parameter(ensemble: Ensemble) -> None:
    ensemble[1].network[0].weight = nn.Parameter(3 * first_weight(ensemble).detach())


def another_layer(ensemble: Ensemble) -> None:
    layer = ensemble[1].network[0]
    other = nn.Linear(layer.in_features, layer.out_features).double()
    ensemble[1].network[0] = other


def another_member(ensemble: Ensemble) -> None:
    ensemble.members[1] = member(0.6)


CHANGES: dict[str, Callable[[Ensemble], None]] = {
    "a member is trained": train_a_member,
    "members are retrained": retrain_them,
    "a member takes a state over": load_a_member,
    "a member takes over a state's own tensors": lambda e: load_a_member(e, assign=True),
    "all take a state over": load_all,
    "a weight is written": write_in_place,
    "a weight is written in inference mode": write_in_inference_mode,
    "a bias is written": write_a_bias,
    "a weight gets other memory": other_memory,
    "a weight is replaced": another_parameter,
    "a layer is replaced": another_layer,
    "a member is replaced": another_member,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("count", [1, 40])
def test_a_change_after_a_prediction_is_seen(ensemble, change, count):
    values = inputs(count)
    before = ensemble(values)
    change(ensemble)
    after = ensemble(values)
    assert not torch.allclose(after, before)
    torch.testing.assert_close(after, one_by_one(ensemble, values), rtol=1e-9, atol=1e-12)


def test_memory_that_comes_back_to_an_old_address_is_not_taken_for_the_old_weights(ensemble):
    weight = first_weight(ensemble)
    ensemble(inputs())
    for factor in range(2, 30):
        weight.data = weight.detach() + factor  # frees the memory of two assignments ago
        expected = one_by_one(ensemble, inputs())
        torch.testing.assert_close(ensemble(inputs()), expected, rtol=1e-9, atol=1e-12)


def test_a_write_through_data_is_seen_after_a_refresh(ensemble):
    ensemble(inputs())
    first_weight(ensemble).data.mul_(3)
    ensemble.refresh()
    expected = one_by_one(ensemble, inputs())
    torch.testing.assert_close(ensemble(inputs()), expected, rtol=1e-9, atol=1e-12)


def test_members_made_in_inference_mode_predict_what_they_hold_now():
    with torch.inference_mode():
        ensemble = Ensemble([member(), member()], Classification(num_classes=CLASSES))
        before = ensemble(inputs())
        first_weight(ensemble).mul_(3)
        after = ensemble(inputs())
        assert not torch.allclose(after, before)
        torch.testing.assert_close(after, one_by_one(ensemble, inputs()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("whole", [True, False], ids=["the ensemble", "each member"])
def test_a_cast_after_a_prediction_is_seen(ensemble, whole):
    before = ensemble(inputs())
    for module in [ensemble] if whole else list(ensemble):
        module.float()
    after = ensemble(inputs().float())
    assert after.dtype is torch.float32
    torch.testing.assert_close(after.double(), before, rtol=1e-4, atol=1e-5)


def test_a_copy_follows_its_own_weights(ensemble):
    before = ensemble(inputs())
    other = copy.deepcopy(ensemble)
    write_in_place(other)
    expected = one_by_one(other, inputs())
    torch.testing.assert_close(other(inputs()), expected, rtol=1e-9, atol=1e-12)
    assert torch.equal(ensemble(inputs()), before)


def test_language_models_predict_with_the_weights_they_have_now():
    torch.manual_seed(0)
    network = LanguageModel(7, 5, [4])
    task = LanguageModelling(words=tuple("abcdefg"))
    ensemble = Ensemble([Member.dense(network, layout_of(network))], task)
    tokens = torch.tensor([[0], [3], [5]])
    before = ensemble.runner()(tokens)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)
    after = ensemble.runner()(tokens)
    assert not torch.allclose(after, before)
    with torch.no_grad():
        torch.testing.assert_close(after[0], network(tokens)[0])


@COUNTS
def test_any_number_of_examples_is_predicted_as_one_by_one(ensemble, count):
    values = inputs(count)
    expected = one_by_one(ensemble, values)
    torch.testing.assert_close(ensemble(values), expected, rtol=1e-9, atol=1e-12)
    assert torch.equal(ensemble(values), ensemble(values))


@COUNTS
def test_noise_stands_beside_each_of_any_number_of_means(count):
    torch.manual_seed(4)
    members = []
    for _ in range(3):
        layers = (nn.Linear(INPUTS, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 2, bias=False))
        network = nn.Sequential(*layers, GaussianNoise(2)).double()
        nn.init.normal_(network[-1].log_variance)
        members.append(Member.dense(network, layout_of(network)))
    ensemble = Ensemble(members, Regression(num_targets=2))
    found = ensemble.runner()(inputs(count))
    with torch.no_grad():
        expected = torch.stack([copy.deepcopy(m).eval()(inputs(count)) for m in members])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert all(m.training for m in members)


def test_predicting_leaves_members_and_their_gradients_alone(ensemble):
    values = inputs().requires_grad_()
    assert not ensemble(values).requires_grad
    ensemble[0](values).sum().backward()
    assert values.grad is not None
    assert all(parameter.grad is not None for parameter in ensemble[0].network.parameters())
