"""One call from a network and data to an ensemble."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import sparsemble
from small_runs import Gate, Shifted, gate_layout, network, predictions, recipe
from sparsemble.data import Dataset
from sparsemble.errors import InputError
from sparsemble.priors import GroupSparse
from sparsemble.samplers import Constant, Cyclical, SGLDSettings
from sparsemble.stages import Callback, ChainSettings, PruneSettings


def test_arrays_tensors_and_the_same_seed_give_the_same_bits(arrays):
    first = sparsemble.learn(network(), arrays, recipe())
    tensors = (torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1]))
    second = sparsemble.learn(network(), tensors, recipe())
    assert np.array_equal(predictions(first, arrays), predictions(second, arrays))
    other = sparsemble.learn(network(), arrays, recipe(seed=2))
    assert not np.array_equal(predictions(first, arrays), predictions(other, arrays))
    seeded = sparsemble.learn(network(), arrays, recipe(), seed=2)
    assert seeded.recipe.seed == 2
    assert np.array_equal(predictions(seeded, arrays), predictions(other, arrays))


def test_the_ensemble_is_sparse_compact_and_better_than_chance(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    cost = learned.ensemble.cost
    assert len(learned.ensemble) == 3
    assert cost.parameters <= 3 * round(0.3 * cost.dense_parameters)
    data = sparsemble.as_dataset(*arrays)
    assert learned.ensemble.evaluate(data)["error"] < 0.25
    stages = [(record.stage, record.epoch) for record in learned.history.epochs]
    assert stages == [("chain", e + 1) for e in range(20)] + [("retrain", e + 1) for e in range(10)]
    questions = {finding.question for finding in learned.findings}
    assert questions >= {"noise", "stationarity", "diversity"}


def test_what_was_learned_is_shown_in_a_line(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    ratio = learned.ensemble.cost.parameters_ratio
    assert repr(learned).startswith(f"<3 classifiers with {ratio:.2f}× the parameters and ")
    assert repr(learned.ensemble.evaluate(arrays)).startswith("error ")


def test_without_pruning_the_members_stay_dense(arrays):
    learned = sparsemble.learn(network(), arrays, recipe(prune=None, retrain=None))
    assert learned.ensemble.cost.parameters_ratio == 3
    assert learned.ensemble.cost.flops_ratio == 3


def test_a_network_of_ones_own_goes_through_with_a_layout_written_by_hand(arrays, tmp_path):
    chosen = recipe(prior=GroupSparse(penalty=2e-3), prune=PruneSettings(sparsity=0.8))
    learned = sparsemble.learn(Gate, arrays, chosen, layout=gate_layout())
    data = sparsemble.as_dataset(*arrays)
    assert learned.ensemble.evaluate(data)["error"] < 0.45  # the largest class leaves 0.52
    assert all(member.layout.space("hidden").size < 20 for member in learned.ensemble)
    stacked = learned.ensemble.evidence(data.inputs)
    for member, probabilities in zip(learned.ensemble, stacked, strict=True):
        alone = member(data.inputs).softmax(-1)
        assert torch.allclose(alone, probabilities, atol=1e-5)
    learned.ensemble.save(tmp_path)
    loaded = sparsemble.Ensemble.load(tmp_path, factory=Gate, layout=gate_layout())
    assert np.array_equal(predictions(learned, arrays), loaded.predict_proba(arrays[0]))


def test_a_network_without_a_layout_is_traced(arrays):
    learned = sparsemble.learn(Gate, arrays, recipe())
    assert learned.ensemble[0].layout.name == "traced"


def test_a_layout_says_what_is_multiplied(arrays):
    layout = replace(sparsemble.layout_of(network()), matrices=())
    with pytest.raises(InputError, match="the layout has no matrices"):
        sparsemble.learn(network(), arrays, recipe(), layout=layout)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(8, 3), nn.Softmax(-1)),
        lambda: nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 3), nn.Softmax(-1)),
    ],
)
def test_a_softmax_at_the_end_is_refused(arrays, make):
    with pytest.raises(InputError, match="remove this layer"):
        sparsemble.learn(make(), arrays, recipe())


def test_inputs_the_network_cannot_take_are_refused_before_training(arrays):
    plain = nn.Sequential(nn.Linear(8, 3))
    images = (arrays[0].reshape(-1, 2, 4), arrays[1])
    with pytest.raises(InputError, match=r"cannot take inputs of shape \(1, 2, 4\)"):
        sparsemble.learn(plain, images, recipe())


class WithoutState(nn.Module):
    """A language model that takes tokens alone."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer = nn.Embedding(234, 4), nn.LSTM(4, 4)
        self.decoder = nn.Linear(4, 234)

    def forward(self, tokens):
        return self.decoder(self.layer(self.embedding(tokens))[0])


def test_a_text_and_a_network_without_a_state_are_told_of_the_context():
    with pytest.raises(InputError, match=r"takes 2 .*, with a task\.context, one"):
        sparsemble.learn(
            WithoutState(), sparsemble.grammar().beginning(0.01), sparsemble.load_recipe("grammar")
        )


def test_a_frozen_parameter_stays_as_it_is(arrays):
    frozen = network()
    frozen[1].weight.requires_grad_(False)
    learned = sparsemble.learn(frozen, arrays, recipe())
    for member in learned.ensemble:
        own = dict(member.network.named_parameters())["1.weight"]
        kept = frozen[1].weight[member.origin.units["1"]]
        assert torch.equal(own, kept)
        assert not own.requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_of_other_precisions_learn(arrays, dtype):
    learned = sparsemble.learn(network().to(dtype), arrays, recipe(retrain=None))
    assert learned.ensemble[0].network[1].weight.dtype is dtype


def test_a_function_may_return_a_network_that_is_still_wanted(arrays):
    own = network()
    before = [parameter.detach().clone() for parameter in own.parameters()]
    chain = recipe().chain.model_copy(update={"chains": 2})
    short = recipe(chain=chain, prune=None, retrain=None)
    learned = sparsemble.learn(lambda: own, arrays, short)
    assert all(map(torch.equal, before, own.parameters()))
    first, second = (learned.ensemble[k].network[1].weight for k in (0, 3))
    assert not torch.equal(first, second)
    calm = chain.model_copy(update={"sampler": SGLDSettings(temperature=0)})
    with pytest.raises(InputError, match="gives every chain the same weights"):
        sparsemble.learn(lambda: own, arrays, recipe(chain=calm))
    with pytest.raises(InputError, match="a network is needed, not int"):
        sparsemble.learn(lambda: 3, arrays, recipe())


def test_what_only_one_chain_can_begin_with_is_refused_before_the_first(arrays):
    class Told(Callback):
        def started(self, *_):
            raise AssertionError("a chain has begun")

    two = recipe(chain=recipe().chain.model_copy(update={"chains": 2}))
    with pytest.raises(InputError, match="give a function that makes a fresh network"):
        sparsemble.learn(Shifted(), arrays, two, callback=Told())
    assert len(sparsemble.learn(Shifted, arrays, two).ensemble) == 6


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("network", 3, r"give a torch\.nn\.Module"),
        ("network", nn.Linear, r"missing a required argument.*as lambda: Linear\(…\)"),
        ("network", [nn.Linear(8, 3)], r"give a torch\.nn\.Module"),
        ("layout", "iss", "give a Layout"),
        ("callback", print, "a subclass of Callback"),
        ("task", "regression", "give a task"),
        ("folder", 3, "is no folder"),
    ],
)
def test_arguments_of_another_kind_are_refused(arrays, name, value, remedy):
    known = {"network": network(), "data": arrays, "recipe": recipe()}
    with pytest.raises(InputError, match=remedy):
        sparsemble.learn(**(known | {name: value}))


def test_cycles_may_be_shorter_than_an_epoch(arrays):
    chain = ChainSettings(
        schedule=Cyclical(lr=0.1, period=0.5),
        collection="cycles",
        epochs=4,
        burn_in=1,
        samples=6,
        batch_size=25,
    )
    learned = sparsemble.learn(network(), arrays, recipe(chain=chain, prune=None, retrain=None))
    assert len(learned.ensemble) == 6
    assert learned.findings


def test_examples_count_by_their_weights_where_a_chain_is_ended():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(200, 8, generator=generator)
    answers = (inputs[:, 0] > 0).long()
    names = {"class_names": ("a", "b")}
    # What most of the validation data say is wrong, and does not count.
    wrong = torch.cat([1 - answers[:45], answers[45:50]])
    judged = Dataset(inputs[:50], wrong, **names).weighed([0.0] * 45 + [1.0] * 5)
    chain = ChainSettings(
        schedule=Constant(lr=0.3),
        sampler=SGLDSettings(temperature=0),
        epochs=12,
        burn_in=0,
        interval=2,
        batch_size=20,
        patience=1,
    )
    learned = sparsemble.learn(
        nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)),
        Dataset(inputs, answers, **names),
        recipe(chain=chain, prune=None, retrain=None),
        validation=judged,
    )
    assert len(learned.ensemble) > 2
    scores = [record.log_score for record in learned.history.samples]
    assert scores == sorted(scores, reverse=True)


def test_a_weight_the_network_does_not_use_is_moved_by_prior_and_noise_alone(arrays):
    class Idle(nn.Sequential):
        def forward(self, inputs):
            return self[4](torch.relu(self[0](inputs)))

    layers = [nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)]
    layout = sparsemble.layout_of(nn.Sequential(*layers))
    idle = Idle(*layers)
    learned = sparsemble.learn(idle, arrays, recipe(prune=None, retrain=None), layout=layout)
    before = idle.get_parameter("2.weight").detach()
    after = learned.ensemble[2].network.get_parameter("2.weight").detach()
    assert after.norm() < 0.7 * before.norm()


def test_the_seconds_of_an_epoch_are_counted_whole(arrays, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("sparsemble.stages.chain.perf_counter", lambda: now[0])

    class Slow(Callback):
        def sampled(self, sample, save):
            now[0] += 1000  # is not the chain's

    def step(module, inputs, outputs):
        now[0] += 2 if module.training else 1000

    timed = network()
    timed.register_forward_hook(step)
    chain = recipe().chain.model_copy(update={"collection": "backward", "samples": 60})
    steps = math.ceil(len(arrays[0]) / chain.batch_size)
    learned = sparsemble.learn(
        timed, arrays, recipe(chain=chain, prune=None, retrain=None), callback=Slow()
    )
    assert [record.seconds for record in learned.history.epochs] == [2.0 * steps] * chain.epochs
    assert learned.seconds["chain"] == 2.0 * steps * chain.epochs
