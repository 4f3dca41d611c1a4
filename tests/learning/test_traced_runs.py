"""Networks of any kind go through a whole run: sampling, shedding, pruning, retraining."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sparsemble
from small_runs import KillAt, Killed, examples, predictions, recipe
from sparsemble.errors import DivergedError, InputError
from sparsemble.members import Member, seen_in, tensors_of
from sparsemble.nets import ResNet, TransformerLanguageModel
from sparsemble.priors import GroupSparse
from sparsemble.programs import Program
from sparsemble.stages import PruneSettings
from sparsemble.structure import narrowed, survivors
from sparsemble.structure.groupings import grouped
from sparsemble.tracing import describe, described

pytestmark = pytest.mark.slow

LAST_STEP = ("chain", 230)


class Pictures(nn.Module):
    """Eight numbers as a picture of two by four, through batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(12)
        self.second = nn.Conv2d(12, 10, 3, padding=1)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(10 * 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x.view(-1, 1, 2, 4))))
        return self.head(self.drop(torch.relu(self.second(x))).flatten(1))


class Steps(nn.Module):
    """Eight numbers as a sequence of four, read both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.GRU(2, 10, bidirectional=True, batch_first=True)
        self.head = nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.read(x.view(-1, 4, 2))[0].mean(1))


class Attending(nn.Module):
    """Eight numbers as four words, by one layer of torch's own encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(2, 12)
        self.layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.1, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.into(x.view(-1, 4, 2))).mean(1))


class Residual(nn.Module):
    """Eight numbers as a picture of two by four, through blocks with a way past them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = ResNet((1, 2, 4), (6, 8), 3, blocks=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x.view(-1, 1, 2, 4))


KINDS = [Pictures, Steps, Attending, Residual]


def fresh(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return kind()


def everything():
    """A budget reached in rounds, the posterior's targets, means, units that leave the chain."""
    chosen = recipe()
    assert chosen.retrain is not None
    changes = {"collection": "means", "every": 2, "average_every": 2, "shed_after": 1, "clip": 5.0}
    return recipe(
        chain=chosen.chain.model_copy(update=changes),
        prior=GroupSparse(penalty=4e-3),
        prune=PruneSettings(flops=1.5, parameters=1.2, steps=2),
        retrain=chosen.retrain.model_copy(update={"targets": 0.5, "epochs": 4}),
    )


@cache
def undisturbed(kind: type[nn.Module]):
    """What a run gives that nobody disturbs."""
    return sparsemble.learn(fresh(kind), examples(), everything())


thorough = pytest.mark.thorough


@pytest.mark.parametrize(
    ("kind", "at"),
    [
        (Pictures, ("chain", 101)),  # what follows is the same for every network
        pytest.param(Pictures, LAST_STEP, marks=thorough),
        pytest.param(Pictures, ("prune-1", 7), marks=thorough),
        pytest.param(Pictures, ("retrain", 20), marks=thorough),
        pytest.param(Steps, ("chain", 101), marks=thorough),
        pytest.param(Attending, ("retrain", 20), marks=thorough),
        pytest.param(Residual, ("chain", 101), marks=thorough),
    ],
)
def test_a_run_killed_anywhere_resumes_to_the_same_bits(arrays, tmp_path, monkeypatch, kind, at):
    whole = undisturbed(kind)
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(fresh(kind), arrays, everything(), folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(fresh(kind), arrays, everything(), folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    saved = sparsemble.Ensemble.load(tmp_path)
    assert np.array_equal(predictions(whole, arrays), saved.predict_proba(arrays[0]))
    assert resumed.history.sheds == whole.history.sheds


@pytest.mark.parametrize(
    "kind", [Pictures, Attending, *(pytest.param(own, marks=thorough) for own in (Steps, Residual))]
)
def test_members_are_programs_within_the_budget(kind):
    learned = undisturbed(kind)
    cost = learned.ensemble.cost
    assert cost.flops_ratio <= 1.5
    assert cost.parameters_ratio <= 1.2
    assert all(isinstance(member.network, Program) for member in learned.ensemble)


@pytest.mark.parametrize(
    ("kind", "grouping"),
    [
        (kind, grouping)
        for kind in KINDS
        for grouping in ("outgoing", "incoming", "iss")
        # A recurrent unit without incoming weights still moves by its bias.
        if (kind, grouping) != (Steps, "incoming")
    ],
)
def test_units_that_leave_a_chain_leave_its_outputs_as_they_are(kind, grouping):
    check_shedding(*in_doubles(kind), grouping)


@pytest.mark.parametrize("grouping", ["outgoing", "incoming", "iss"])
def test_so_do_those_of_a_network_that_reads_texts(grouping):
    check_shedding(*in_doubles(TransformerLanguageModel), grouping)


@cache
def in_doubles(kind: type[nn.Module]):
    """A network, traced, in doubles and with biases that are not at zero; and inputs for it."""
    if kind is TransformerLanguageModel:
        network, along = TransformerLanguageModel(9, 16, context=6, layers=2, heads=4), 1
        inputs = torch.randint(9, (7, 3))
    else:
        network, along, inputs = fresh(kind), 0, torch.randn(6, 8).double()
    with torch.no_grad():
        for name, parameter in network.double().named_parameters():
            if "bias" in name:
                parameter.normal_()
    return described(network, (inputs,), along=along), inputs


def check_shedding(traced, inputs, grouping):
    """Without every other group, outputs are those of a network where these are at zero."""
    layout = grouped(traced.layout, grouping)
    tensors = {name: tensor.detach().clone() for name, tensor in tensors_of(traced.program).items()}
    for family in layout.families:  # every other group is at zero
        size = layout.space(family.space).size
        for slot in family.slots:
            owned = slot.indices(size)[::2].flatten()
            tensors[slot.parameter].index_fill_(slot.dim, owned, 0)
    seen = seen_in(traced.program, layout, tensors)
    kept = survivors(layout, tensors, seen).kept
    assert sum(map(len, kept.values())) < sum(layout.sizes.values())
    small = narrowed(layout, tensors, kept, seen)
    sizes = {name: len(units) for name, units in kept.items()}
    blueprint = traced.program.blueprint_
    with torch.no_grad():
        expected = Program(blueprint, tensors, layout.sizes).eval()(inputs)
        found = Program(blueprint, small, sizes).eval()(inputs)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_a_chain_of_a_traced_network_sheds_and_learns(arrays):
    learned = undisturbed(Pictures)
    assert learned.history.sheds[-1].flops < 0.9
    assert learned.ensemble.evaluate(arrays)["error"] < 0.2


def test_statistics_of_members_are_those_of_the_training_data(arrays):
    learned = sparsemble.learn(fresh(Pictures), arrays, recipe(retrain=None))
    inputs = torch.from_numpy(arrays[0])
    for member in learned.ensemble:
        held = tensors_of(member.network)
        with torch.no_grad():
            values = member.network.values_([inputs], {_normalised(member)})
        (read,) = values.values()
        mean = read.mean((0, 2, 3))
        torch.testing.assert_close(held["norm.running_mean"], mean, rtol=1e-3, atol=1e-4)


def _normalised(member: Member) -> str:
    """The name of what is normalised."""
    graph = member.network.blueprint_.evaluating
    step = next(step for step in graph.steps if step.normalises)
    return step.arguments[0].name


def test_a_layout_of_ones_own_refuses_what_it_says_nothing_of(arrays):
    traced = describe(fresh(Pictures), torch.randn(4, 8))
    with pytest.raises(InputError, match="leave the layout out"):
        sparsemble.learn(fresh(Pictures), arrays, recipe(), layout=traced.layout)


def test_every_chain_starts_from_weights_of_its_own(arrays):
    chosen = recipe(retrain=None, prune=None)
    two = chosen.model_copy(update={"chain": chosen.chain.model_copy(update={"chains": 2})})
    learned = sparsemble.learn(fresh(Pictures), arrays, two)
    first, second = (tensors_of(learned.ensemble[k].network)["head.weight"] for k in (0, -1))
    assert not torch.equal(first, second)


class Still(nn.Module):
    """Nothing of it may go, and something is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.norm, self.out = nn.Linear(8, 6), nn.LayerNorm(6), nn.Linear(6, 3)
        self.spare = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.into(torch.cat([x.mean(1, keepdim=True), x[:, 1:]], 1))))


def test_what_a_user_may_not_have_meant_is_told(arrays):
    with pytest.warns(UserWarning, match="no unit of the network may go") as told:
        learned = sparsemble.learn(fresh(Still), arrays, recipe(retrain=None))
    texts = [str(warning.message) for warning in told]
    assert any("into: normalised across the units by layer_norm in norm" in text for text in texts)
    assert any("never uses its parameters spare.bias, spare.weight" in text for text in texts)
    assert learned.ensemble.cost.parameters_ratio < 1  # single weights can still go


def test_a_network_without_numbers_is_refused():
    with torch.device("meta"):
        empty = Pictures()
    with pytest.raises(InputError, match="meta device"):
        describe(empty, torch.randn(4, 8))


@pytest.mark.parametrize("inputs", [(), (torch.randn(1, 8),)])
def test_too_few_examples_are_refused(inputs):
    with pytest.raises(InputError, match=r"give some tensors|two examples at least"):
        describe(fresh(Pictures), *inputs)


@pytest.mark.parametrize(
    "wrapped",
    [False, pytest.param(True, marks=pytest.mark.thorough)],
    ids=["loader", "torch dataset"],
)
def test_the_classes_of_a_loader_are_the_outputs_of_a_network_of_ones_own(arrays, wrapped):
    data = torch.utils.data.TensorDataset(*(torch.as_tensor(part) for part in arrays))
    if wrapped:
        given = torch.utils.data.Subset(data, range(len(data)))
    else:
        given = torch.utils.data.DataLoader(data, 20, shuffle=True)
    learned = sparsemble.learn(fresh(Pictures), given, recipe())
    assert learned.ensemble.task.outputs == 3
    assert learned.ensemble.predict_proba(arrays[0]).shape == (len(arrays[0]), 3)
    assert learned.ensemble.evaluate(arrays)["error"] < 0.2


class Normal(nn.Module):
    """Each unit normalised by its batch."""

    def __init__(self, slope: float = 0.1, dropout: float = 0.1) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.slope, self.drop = slope, nn.Dropout(dropout)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.leaky_relu(self.norm(self.first(x)), self.slope)
        return self.head(self.drop(hidden))


def normal(**changes) -> Normal:
    torch.manual_seed(3)
    return Normal(**changes)


def test_an_example_that_is_left_over_does_not_spoil_statistics(arrays):
    few = [part[:276] for part in arrays]  # eleven batches of 25, and one
    ensemble = sparsemble.learn(normal(), few, recipe()).ensemble
    assert np.isfinite(list(ensemble.evaluate(arrays).metrics.values())).all()
    assert ensemble.evaluate(arrays)["error"] < 0.35


def test_a_loader_with_a_batch_of_one_example_is_told_why_that_cannot_be(arrays):
    rows = list(zip(*(torch.from_numpy(part[:41]) for part in arrays), strict=True))
    loader = torch.utils.data.DataLoader(rows, batch_size=20)
    with pytest.raises(DivergedError, match="has a batch one example, which has no variance"):
        sparsemble.learn(normal(), loader, recipe())


@pytest.mark.parametrize("changes", [{"slope": 0.9}, {"dropout": 0.5}])
def test_a_folder_of_a_network_that_computes_something_else_is_refused(arrays, tmp_path, changes):
    short = recipe(retrain=None, prune=None)
    sparsemble.learn(normal(), arrays, short, folder=tmp_path)
    sparsemble.learn(normal(), arrays, short, folder=tmp_path)
    with pytest.raises(InputError, match="its network differs"):
        sparsemble.learn(normal(**changes), arrays, short, folder=tmp_path)
