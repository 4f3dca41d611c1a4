"""An ensemble as a PyTorch module: what it holds is in its state, moves and is copied with it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from sparsemble.data import Scaling
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.stages import prune
from sparsemble.tasks import Classification, Regression
from sparsemble.tasks.task import Task

SHIFT, FACTOR = torch.arange(6.0), torch.full((6,), 0.25)


def members(outputs: int = 3, count: int = 2) -> list[Member]:
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, outputs)).eval()
        layout = layout_of(network)
        masks = prune(dict(network.named_parameters()), layout, sparsity=0.5)
        made.append(compact(network, layout, masks))
    return made


def classes(**more: object) -> Classification:
    return Classification(scaling=Scaling(SHIFT.clone(), FACTOR.clone()), **more)


def numbers() -> Regression:
    return Regression(
        noise="predicted",
        num_targets=1,
        scaling=Scaling(SHIFT.clone(), FACTOR.clone()),
        target_scaling=Scaling(torch.tensor([100.0]), torch.tensor([0.1])),
    )


@pytest.fixture(params=["classes", "numbers"])
def ensemble(request) -> Ensemble:
    if request.param == "classes":
        return Ensemble(members(), classes())
    return Ensemble(members(outputs=2), numbers())


def test_scalings_and_masks_are_part_of_the_state(ensemble):
    state = ensemble.state_dict()
    assert torch.equal(state["scalings.inputs.shift"], SHIFT)
    assert torch.equal(state["scalings.inputs.factor"], FACTOR)
    if isinstance(ensemble.task, Regression):
        assert state["scalings.targets.shift"].tolist() == [100.0]
    for number, member in enumerate(ensemble):
        for name, mask in member.masks.items():
            key = f"members.{number}.mask of {name.replace('.', '/')}"
            assert torch.equal(state[key], mask)
            assert mask.dtype is torch.bool


def test_a_state_taken_over_brings_scalings_masks_and_predictions(ensemble):
    inputs = torch.randn(5, 6) * 4
    other = copy.deepcopy(ensemble)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor.copy_(~tensor if tensor.dtype is torch.bool else tensor.abs() / 2 + 0.1)
    assert not torch.equal(other(inputs), ensemble(inputs))
    other.load_state_dict(ensemble.state_dict())
    assert torch.equal(other(inputs), ensemble(inputs))
    assert torch.equal(other.task.scalings["inputs"].shift, SHIFT)


def test_a_state_with_a_scaling_is_taken_over_where_there_was_none():
    scaled = Ensemble(members(), Classification(scaling=Scaling.by(0.1)))
    plain = Ensemble(members(), Classification())
    inputs = torch.randn(5, 6)
    assert not torch.equal(plain(inputs), scaled(inputs))
    plain.load_state_dict(scaled.state_dict())
    assert torch.equal(plain(inputs), scaled(inputs))


def test_a_cast_reaches_the_scalings_that_the_task_computes_with(ensemble):
    inputs = torch.randn(50, 6) * 4
    before = ensemble(inputs)
    wide = copy.deepcopy(ensemble).double()
    for scaling in wide.task.scalings.values():
        assert scaling.shift.dtype is scaling.factor.dtype is torch.float64
    assert all(mask.dtype is torch.bool for member in wide for mask in member.masks.values())
    torch.testing.assert_close(wide(inputs).double(), before.double(), rtol=1e-4, atol=1e-5)
    assert ensemble.task.scalings["inputs"].shift.dtype is torch.float32  # of the copied one


def test_a_move_takes_masks_and_scalings_along(ensemble):
    moved = ensemble.to("meta")
    tensors = [*moved.parameters(), *moved.buffers()]
    for scaling in moved.task.scalings.values():
        tensors += [scaling.shift, scaling.factor]
    for member in moved:
        tensors += member.masks.values()
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_the_task_given_is_left_alone_and_not_shared(ensemble):
    task = classes()
    first, second = Ensemble(members(), task), Ensemble(members(), task)
    first.double()
    assert task.scaling.shift.dtype is second.task.scaling.shift.dtype is torch.float32


def test_members_are_averaged_after_scaling():
    ensemble = Ensemble(members(), classes())
    raw = torch.randn(7, 6) * 4
    with torch.no_grad():
        each = [member((raw - SHIFT) * FACTOR).softmax(-1) for member in ensemble]
    expected = torch.stack(each).mean(0)
    torch.testing.assert_close(ensemble(raw), expected)
    assert ensemble.predict_proba(raw.numpy()) == pytest.approx(expected.numpy(), abs=1e-6)
    assert np.array_equal(ensemble.predict(raw), expected.argmax(-1).numpy())


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Classification(class_names=("a", "b")), "have 3 outputs, Classification needs 2"),
        (Regression(noise="predicted"), "1 target, 3 outputs .*needs 2, a mean and a log"),
        (Regression(num_targets=2), "have 3 outputs, Regression needs 2"),
    ],
)
def test_a_task_that_the_members_do_not_fit_is_refused(task: Task, message):
    with pytest.raises(InputError, match=message):
        Ensemble(members(), task)


def test_regressors_give_no_probabilities_of_classes():
    with pytest.raises(InputError, match="regressors give no probabilities of classes"):
        Ensemble(members(outputs=2), numbers()).predict_proba(torch.zeros(2, 6))


def test_inputs_of_another_width_are_refused_whatever_the_task_was_told(ensemble):
    with pytest.raises(InputError, match=r"\(2, 7\), the ensemble reads 6 features per row"):
        ensemble.predict(torch.zeros(2, 7))


def test_rows_of_another_shape_are_the_same_rows(ensemble):
    rows = torch.randn(5, 6)
    assert torch.equal(ensemble.evidence(rows.unsqueeze(2)), ensemble.evidence(rows))
    assert torch.equal(ensemble.evidence(rows.view(5, 2, 3)), ensemble.evidence(rows))
