"""One call from a network and data to an ensemble, whatever form they have."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sparsemble
from sparsemble.errors import InputError
from sparsemble.layouts import feedforward_layout
from sparsemble.priors import GroupSparse
from sparsemble.recipes import Recipe
from sparsemble.samplers import Constant, Exponential, SamplerSettings
from sparsemble.stages import ChainSettings, Observer, PruneSettings, RetrainSettings
from sparsemble.stages.divergence import DivergenceSettings
from sparsemble.stages.objectives import SummedClassification
from sparsemble.structure import Family, Layout, Matrix, Role, Slot, Space, SpaceKind


def recipe(**changes) -> Recipe:
    fields = {
        "seed": 1,
        "prior": GroupSparse(penalty=1e-3),
        "chain": ChainSettings(
            sampler=SamplerSettings(temperature=0.01),
            schedule=Constant(rate=0.3),
            batch_size=25,
            epochs=20,
            burn_in=8,
            interval=4,
        ),
        "prune": PruneSettings(sparsity=0.7),
        "retrain": RetrainSettings(
            schedule=Exponential(rate=0.3, factor=1.1), epochs=10, batch_size=25
        ),
    }
    return Recipe(**(fields | changes))


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 8)).astype(np.float32)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).astype(int) + (inputs[:, 2] > 0)
    return inputs, targets


def network() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))


def predictions(learned, arrays):
    return learned.ensemble.predict_proba(arrays[0])


def test_arrays_tensors_and_the_same_seed_give_the_same_bits(arrays):
    first = sparsemble.learn(network(), arrays, recipe())
    tensors = (torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1]))
    second = sparsemble.learn(network(), tensors, recipe())
    assert np.array_equal(predictions(first, arrays), predictions(second, arrays))
    other = sparsemble.learn(network(), arrays, recipe(seed=2))
    assert not np.array_equal(predictions(first, arrays), predictions(other, arrays))


def test_the_ensemble_is_sparse_compact_and_better_than_chance(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    cost = learned.ensemble.cost
    assert len(learned.ensemble) == 3
    assert cost.parameters <= 3 * round(0.3 * cost.dense_parameters)
    data = sparsemble.as_dataset(*arrays)
    assert learned.ensemble.evaluate(data).error < 0.25
    stages = [(record.stage, record.epoch) for record in learned.history.epochs]
    assert stages == [("chain", e + 1) for e in range(20)] + [("retrain", e + 1) for e in range(10)]
    assert {finding.question for finding in learned.findings} == {
        "noise",
        "stationarity",
        "diversity",
    }


def test_retraining_lowers_the_loss_and_keeps_the_masks(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    raw = sparsemble.learn(network(), arrays, recipe(retrain=None))
    data = sparsemble.as_dataset(*arrays)
    assert learned.ensemble.evaluate(data).member_nll < raw.ensemble.evaluate(data).member_nll
    for after, before in zip(learned.ensemble, raw.ensemble, strict=True):
        assert after.cost == before.cost
        for name, parameter in after.network.named_parameters():
            if name in after.masks:
                assert torch.equal(after.masks[name], before.masks[name])
                assert bool((parameter[~after.masks[name]] == 0).all())


def test_a_loader_serves_as_well(arrays):
    data = TensorDataset(torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1]))
    loader = DataLoader(data, batch_size=25, shuffle=True)
    learned = sparsemble.learn(network(), loader, recipe())
    assert learned.ensemble.evaluate(sparsemble.as_dataset(*arrays)).error < 0.3


def test_without_pruning_the_members_stay_dense(arrays):
    learned = sparsemble.learn(network(), arrays, recipe(prune=None, retrain=None))
    assert learned.ensemble.cost.parameters_ratio == 3
    assert learned.ensemble.cost.flops_ratio == 3


class Gate(nn.Module):
    """A module of one's own: `y = V(sigmoid(Ax + a) · tanh(Bx + b)) + c`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 20)
        self.value = nn.Linear(8, 20)
        self.out = nn.Linear(20, 3)

    def forward(self, x):
        return self.out(torch.sigmoid(self.gate(x)) * torch.tanh(self.value(x)))


def gate_layout() -> Layout:
    own = (
        Slot("gate.weight", 0, "hidden", Role.PRODUCER),
        Slot("value.weight", 0, "hidden", Role.PRODUCER),
        Slot("out.weight", 1, "hidden", Role.CONSUMER),
    )
    return Layout(
        spaces=(
            Space("inputs", 8, SpaceKind.INPUT),
            Space("hidden", 20),
            Space("outputs", 3, SpaceKind.OUTPUT),
        ),
        slots=(
            Slot("gate.weight", 1, "inputs", Role.CONSUMER),
            Slot("value.weight", 1, "inputs", Role.CONSUMER),
            *own,
            Slot("gate.bias", 0, "hidden", Role.BIAS),
            Slot("value.bias", 0, "hidden", Role.BIAS),
            Slot("out.weight", 0, "outputs", Role.PRODUCER),
            Slot("out.bias", 0, "outputs", Role.BIAS),
        ),
        families=(Family("units", own),),
        matrices=(
            Matrix("gate", ("gate.weight",)),
            Matrix("value", ("value.weight",)),
            Matrix("out", ("out.weight",)),
        ),
    )


def test_a_network_of_ones_own_goes_through_with_a_layout_written_by_hand(arrays, tmp_path):
    chosen = recipe(prior=GroupSparse(penalty=2e-3), prune=PruneSettings(sparsity=0.8))
    learned = sparsemble.learn(Gate, arrays, chosen, layout=gate_layout())
    data = sparsemble.as_dataset(*arrays)
    assert learned.ensemble.evaluate(data).error < 0.45  # the largest class leaves 0.52
    assert all(member.layout.space("hidden").size < 20 for member in learned.ensemble)
    stacked = learned.ensemble.member_probabilities(data.inputs)
    for member, probabilities in zip(learned.ensemble, stacked, strict=True):
        alone = member(data.inputs).softmax(-1)
        assert torch.allclose(alone, probabilities, atol=1e-5)
    learned.ensemble.save(tmp_path)
    loaded = sparsemble.Ensemble.load(tmp_path, factory=Gate, layout=gate_layout())
    assert np.array_equal(predictions(learned, arrays), loaded.predict_proba(arrays[0]))


def test_a_network_without_a_layout_is_refused(arrays):
    with pytest.raises(InputError, match="write a Layout by hand"):
        sparsemble.learn(Gate, arrays, recipe())


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.Conv1d(1, 1, 1), "Conv1d.* is not known to the feed-forward layout"),
        (nn.Softmax(-1), "remove this layer"),
        (nn.LayerNorm(3), "not known"),
    ],
)
def test_a_layer_the_layout_does_not_know_is_refused(arrays, layer, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(nn.Sequential(nn.Linear(8, 3), layer), arrays, recipe())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (np.where(x > 2, np.nan, x), y), "hold NaN or infinity"),
        (lambda x, y: (x, y + 1), "label 3 of example .* outside the 3 classes"),
        (lambda x, y: (x[:, :5], y), "the data has 5 features, the network's first layer 8"),
        (lambda x, y: (x[:0], y[:0]), "no examples"),
    ],
)
def test_bad_data_is_refused_before_anything_is_written(arrays, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network(), change(*arrays), recipe(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_wrong_number_of_classes_is_refused(arrays):
    data = replace(sparsemble.as_dataset(*arrays), class_names=("a", "b", "c", "d"))
    with pytest.raises(InputError, match="the data has 4 classes, the network's last layer 3"):
        sparsemble.learn(network(), data, recipe())


class Killed(BaseException):
    pass


class KillAt(Observer):
    def __init__(self, stage: str, step: int) -> None:
        self.at = (stage, step)
        self.stage = ""

    def started(self, stage, chain, chains, done, total):
        self.stage = stage

    def stepped(self, chain, step, loss, save):
        if (self.stage, step) == self.at:
            raise Killed


@pytest.mark.parametrize("at", [("chain", 5), ("chain", 150), ("retrain", 7), ("retrain", 119)])
def test_a_run_stopped_anywhere_and_started_again_gives_the_same_bits(
    arrays, tmp_path, monkeypatch, at
):
    # A checkpoint after every step: the kill then loses nothing that a resumed run repeats.
    monkeypatch.setattr("sparsemble.runs.keeper.CHECKPOINT_EVERY", 0.0)
    whole = sparsemble.learn(network(), arrays, recipe())
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, observer=KillAt(*at))
    resumed = sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    assert [(r.stage, r.epoch) for r in resumed.history.epochs] == [
        (r.stage, r.epoch) for r in whole.history.epochs
    ]
    saved = sparsemble.Ensemble.load(tmp_path / "ensemble")
    assert np.array_equal(predictions(whole, arrays), saved.predict_proba(arrays[0]))


class Stages(Observer):
    def __init__(self) -> None:
        self.begun = []

    def started(self, stage, chain, chains, done, total):
        self.begun.append(stage)


def test_runs_that_differ_after_the_chain_share_its_samples(arrays, tmp_path):
    shared = tmp_path / "chain"
    first = sparsemble.learn(
        network(), arrays, recipe(), folder=tmp_path / "a", samples_folder=shared
    )
    other = recipe(prune=PruneSettings(sparsity=0.9))
    second = sparsemble.learn(
        network(),
        arrays,
        other,
        folder=tmp_path / "b",
        samples_folder=shared,
        observer=(seen := Stages()),
    )
    alone = sparsemble.learn(network(), arrays, other)
    assert np.array_equal(predictions(second, arrays), predictions(alone, arrays))
    assert second.ensemble.cost.parameters < first.ensemble.cost.parameters
    assert seen.begun == ["retrain"]  # the chain was not run again


def test_a_folder_of_another_run_is_refused(arrays, tmp_path):
    sparsemble.learn(network(), arrays, recipe(), folder=tmp_path / "run")
    with pytest.raises(InputError, match="another recipe or seed"):
        sparsemble.learn(network(), arrays, recipe(seed=9), folder=tmp_path / "run")
    with pytest.raises(InputError, match=r"belongs to another run: its prior differ"):
        sparsemble.learn(
            network(),
            arrays,
            recipe(prior=GroupSparse(penalty=1e-4)),
            folder=tmp_path / "other",
            samples_folder=tmp_path / "run" / "chain",
        )


def test_a_folder_in_use_is_refused(arrays, tmp_path):
    from sparsemble.runs import RunFolder

    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(InputError, match="in use by another process"),
    ):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)


def test_named_features_are_put_into_the_order_learned(arrays):
    names = [f"f{k}" for k in range(8)]
    data = sparsemble.as_dataset(*arrays, feature_names=names)
    ensemble = sparsemble.learn(network(), data, recipe(retrain=None)).ensemble
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    shuffled = ensemble.predict_proba(arrays[0][:, order], [names[k] for k in order])
    assert np.array_equal(shuffled, ensemble.predict_proba(arrays[0]))
    with pytest.raises(InputError, match="feature 'f7' is missing"):
        ensemble.predict_proba(arrays[0][:, :7], names[:7])


@pytest.fixture(scope="module")
def table(arrays):
    """The arrays' inputs with names."""
    return pd.DataFrame(arrays[0], columns=[f"f{k}" for k in range(8)])


@pytest.fixture(scope="module")
def named(table, arrays):
    """An ensemble learned from a table."""
    return sparsemble.learn(network(), (table, arrays[1]), recipe(retrain=None)).ensemble


def test_a_table_s_columns_are_put_into_the_order_learned(named, table, arrays):
    assert named.feature_names == tuple(table.columns)
    shuffled = table[table.columns[[3, 1, 0, 2, 7, 6, 5, 4]]]
    assert np.array_equal(named.predict_proba(shuffled), named.predict_proba(arrays[0]))
    assert np.array_equal(named.predict(shuffled), named.predict(arrays[0]))
    assert np.array_equal(
        named.uncertainty(shuffled).mutual_information,
        named.uncertainty(arrays[0]).mutual_information,
    )
    assert named.evaluate((shuffled, arrays[1])) == named.evaluate(arrays)


def test_validation_data_s_columns_are_put_into_the_order_learned(table, arrays):
    backwards = table[table.columns[::-1]]
    short = recipe(prune=None, retrain=None)
    measured = [
        sparsemble.learn(network(), (table, arrays[1]), short, validation=(inputs, arrays[1]))
        for inputs in (table, backwards)
    ]
    assert measured[0].history.samples == measured[1].history.samples


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda t: t.drop(columns="f6"), "feature 'f6' is missing"),
        (lambda t: t.assign(other=0.0), "feature 'other' is unknown"),
        (lambda t: t.rename(columns={"f2": "f1"}), "'f1' twice"),
        (lambda t: pd.DataFrame(t.to_numpy()), "feature 'f0' is missing"),
    ],
)
def test_a_table_with_other_columns_is_refused(named, table, arrays, changed, message):
    for use in (named.predict, named.predict_proba, named.uncertainty):
        with pytest.raises(InputError, match=message):
            use(changed(table))
    with pytest.raises(InputError, match=message):
        named.evaluate((changed(table), arrays[1]))


def test_without_names_learned_a_table_s_columns_are_taken_in_order(ensemble, table, arrays):
    assert ensemble.feature_names is None
    assert np.array_equal(ensemble.predict_proba(table), ensemble.predict_proba(arrays[0]))
    assert ensemble.evaluate((table, arrays[1])) == ensemble.evaluate(arrays)


@pytest.fixture(scope="module")
def ensemble(arrays):
    return sparsemble.learn(network(), arrays, recipe(retrain=None)).ensemble


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.zeros((4, 7), np.float32), "reads 8 features a row"),
        (np.zeros(8, np.float32), "one row an example"),
        (np.full((2, 8), np.nan), "NaN or infinity"),
        (np.zeros((2, 8), complex), "complex"),
        (torch.zeros(2, 8, dtype=torch.complex64), "complex"),
        ([["a"] * 8], "are not numbers"),
        ([[1.0] * 8, [1.0]], "rows of different lengths"),
        (None, "are not numbers"),
    ],
)
def test_what_cannot_be_predicted_is_refused(ensemble, inputs, message):
    with pytest.raises(InputError, match=message):
        ensemble.predict_proba(inputs)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.astype(np.float64),
        lambda x: x.astype(np.longdouble),
        lambda x: x.tolist(),
        lambda x: torch.from_numpy(x).double(),
        lambda x: torch.from_numpy(x).requires_grad_(),
        lambda x: x[::-1][::-1],
        lambda x: np.asfortranarray(x),
        lambda x: x.astype(">f4"),
        lambda x: x.reshape(-1, 2, 4),
    ],
)
def test_the_same_numbers_in_any_form_predict_the_same(ensemble, arrays, change):
    expected = ensemble.predict_proba(arrays[0])
    assert np.array_equal(ensemble.predict_proba(change(arrays[0])), expected)


def test_no_rows_give_no_predictions(ensemble):
    assert ensemble.predict_proba(np.zeros((0, 8), np.float32)).shape == (0, 3)


def test_an_ensemble_follows_its_weights_and_its_dtype(ensemble, arrays):
    from copy import deepcopy

    inputs = torch.from_numpy(arrays[0])
    before = ensemble(inputs)
    double = deepcopy(ensemble).double()
    assert double(inputs).dtype == torch.float64
    assert torch.allclose(double(inputs).float(), before, atol=1e-5)
    other = deepcopy(ensemble)
    other(inputs)
    other.load_state_dict({name: t * 0 for name, t in ensemble.state_dict().items()})
    assert torch.allclose(other(inputs), torch.full((300, 3), 1 / 3))


def test_an_ensemble_can_be_sent_to_another_process(ensemble, arrays):
    import pickle

    copy = pickle.loads(pickle.dumps(ensemble))
    assert np.array_equal(copy.predict_proba(arrays[0]), ensemble.predict_proba(arrays[0]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_of_other_precisions_learn(arrays, dtype):
    learned = sparsemble.learn(network().to(dtype), arrays, recipe(retrain=None))
    assert learned.ensemble[0].network[1].weight.dtype is dtype


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros((4, 8)), "give a pair"),
        ((np.zeros((4, 8)), np.zeros(4), 3), "give a pair"),
        ("text", "give a pair"),
    ],
)
def test_data_of_the_wrong_kind_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network(), data, recipe())


def test_inputs_the_network_cannot_take_are_refused_before_training(arrays):
    plain = nn.Sequential(nn.Linear(8, 3))
    images = (arrays[0].reshape(-1, 2, 4), arrays[1])
    with pytest.raises(InputError, match=r"cannot take inputs of shape \(1, 2, 4\)"):
        sparsemble.learn(plain, images, recipe())


def test_a_frozen_parameter_is_refused(arrays):
    frozen = network()
    frozen[1].weight.requires_grad_(False)
    with pytest.raises(InputError, match=r"'1.weight' is frozen"):
        sparsemble.learn(frozen, arrays, recipe())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda net, data: (nn.Sequential(*net[:2], nn.Tanh(), net[3]), data), "network"),
        (lambda net, data: (net.apply(nudge), data), "initial weights"),
        (lambda net, data: (net, (data[0] * 2, data[1])), "data"),
    ],
)
def test_a_folder_is_only_gone_on_with_by_the_same_network_and_data(arrays, tmp_path, change, what):
    sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
    other, data = change(network(), arrays)
    with pytest.raises(InputError, match=f"its .*{what}.* differ"):
        sparsemble.learn(other, data, recipe(), folder=tmp_path)


def nudge(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.data += 0.01


def test_a_run_killed_before_its_first_checkpoint_starts_anew(arrays, tmp_path):
    whole = sparsemble.learn(network(), arrays, recipe())
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, observer=KillAt("chain", 40))
    trace = tmp_path / "chain" / "trace.jsonl"
    trace.write_text(trace.read_text()[:-20])  # and its last line is torn
    for _ in range(2):
        again = sparsemble.learn(network(), arrays, recipe(), folder=tmp_path)
        assert [(r.stage, r.epoch) for r in again.history.epochs] == [
            (r.stage, r.epoch) for r in whole.history.epochs
        ]
    assert np.array_equal(predictions(whole, arrays), predictions(again, arrays))


def test_a_run_goes_on_with_the_threads_it_began_with(arrays, tmp_path):
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, observer=KillAt("chain", 40))
    seen = []

    class Threads(Observer):
        def started(self, stage, chain, chains, done, total):
            seen.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        sparsemble.learn(network(), arrays, recipe(), folder=tmp_path, observer=Threads())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert set(seen) == {1}


def test_costs_of_an_ensemble_made_by_hand_are_relative_to_the_dense_network(arrays):
    chosen = recipe(retrain=None)
    ensemble = sparsemble.learn(network(), arrays, chosen).ensemble
    by_hand = sparsemble.Ensemble(list(ensemble))
    assert by_hand.cost.dense_parameters == 8 * 24 + 24 * 3
    assert by_hand.cost == ensemble.cost


def test_scaling_travels_with_the_ensemble(arrays, tmp_path):
    from sparsemble.data import Scaling

    raw = (arrays[0] * 50 + 7, arrays[1])
    data = sparsemble.as_dataset(*raw, scaling=Scaling.standard(torch.from_numpy(raw[0])))
    ensemble = sparsemble.learn(network(), data, recipe()).ensemble
    assert ensemble.evaluate(data).error < 0.25
    ensemble.save(tmp_path)
    loaded = sparsemble.Ensemble.load(tmp_path)
    assert np.array_equal(loaded.predict(raw[0]), ensemble.predict(raw[0]))
    assert (loaded.predict(raw[0]) == raw[1]).mean() > 0.75


class KillAfterRollback(Observer):
    """Kills the run some steps after a rollback that undid samples."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.left = None
        self.undone = 0
        self.taken = []

    def sampled(self, sample, save):
        self.taken.append(sample.step)

    def rolled_back(self, rollback, save):
        undone = sum(step > rollback.back_to for step in self.taken)
        if undone and self.left is None:
            self.undone, self.left = undone, self.steps
            if self.left == 0:
                raise Killed

    def stepped(self, chain, step, loss, save):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("collection", ["thinned", "backward"])
def test_a_kill_after_a_rollback_loses_no_sample(arrays, tmp_path, collection, steps):
    unstable = recipe(
        chain=ChainSettings(
            sampler=SamplerSettings(temperature=1),
            schedule=Constant(rate=3.0),
            batch_size=25,
            epochs=20,
            burn_in=0,
            interval=1,
            collection=collection,
            samples=235 if collection == "backward" else None,
            divergence=DivergenceSettings(rise=0.05, max_rollbacks=50),
        ),
        retrain=None,
    )
    whole = sparsemble.learn(network(), arrays, unstable)
    killer = KillAfterRollback(steps)
    with pytest.raises(Killed):
        sparsemble.learn(network(), arrays, unstable, folder=tmp_path, observer=killer)
    assert killer.undone
    resumed = sparsemble.learn(network(), arrays, unstable, folder=tmp_path)
    assert np.array_equal(predictions(whole, arrays), predictions(resumed, arrays))
    assert resumed.history.rollbacks == whole.history.rollbacks


def test_features_and_classes_are_matched_by_name(arrays):
    names, classes = [f"f{k}" for k in range(8)], ("none", "one", "two")
    data = sparsemble.as_dataset(*arrays, feature_names=names, class_names=classes)
    ensemble = sparsemble.learn(network(), data, recipe(retrain=None)).ensemble
    wanted = ensemble.evaluate(data)
    order = [3, 1, 0, 2, 7, 6, 5, 4]
    other = sparsemble.as_dataset(
        arrays[0][:, order],
        2 - arrays[1],
        feature_names=[names[k] for k in order],
        class_names=classes[::-1],
    )
    assert ensemble.evaluate(other) == wanted
    indices = sparsemble.as_dataset(*arrays)
    assert ensemble.evaluate(indices) == wanted
    foreign = sparsemble.as_dataset(*arrays, class_names=("none", "one", "many"))
    with pytest.raises(InputError, match="a class 'many'"):
        ensemble.evaluate(foreign)
    with pytest.raises(InputError, match="reads 8 features"):
        ensemble.evaluate(sparsemble.as_dataset(arrays[0][:, :5], arrays[1]))


def test_one_member_that_collapses_is_noticed_among_many():
    logits = torch.zeros(18, 50, 10)
    targets = torch.arange(50) % 10
    logits[:, torch.arange(50), targets] = 9.0
    logits[7] = 0.0
    objective = SummedClassification(lambda _: logits, 10)
    loss = float(objective(torch.zeros(50, 1), targets))
    assert loss < 0.2 * 18 * math.log(10)  # the sum alone would not tell
    assert objective.watched(loss) == pytest.approx(math.log(10))
    assert objective.guessing == pytest.approx(math.log(10))


def test_a_weight_the_network_does_not_use_is_moved_by_prior_and_noise_alone(arrays):
    class Idle(nn.Sequential):
        def forward(self, inputs):
            return self[4](torch.relu(self[0](inputs)))

    layers = [nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)]
    layout = feedforward_layout(nn.Sequential(*layers))
    idle = Idle(*layers)
    learned = sparsemble.learn(idle, arrays, recipe(prune=None, retrain=None), layout=layout)
    before = idle.get_parameter("2.weight").detach()
    after = learned.ensemble[2].network.get_parameter("2.weight").detach()
    assert after.norm() < 0.7 * before.norm()


def test_the_seconds_of_an_epoch_are_counted_whole(arrays, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("sparsemble.stages.chain.perf_counter", lambda: now[0])

    class Slow(Observer):
        def sampled(self, sample, save):
            now[0] += 1000  # is not the chain's

    def step(module, inputs, outputs):
        now[0] += 2 if module.training else 1000

    timed = network()
    timed.register_forward_hook(step)
    chain = recipe().chain.model_copy(update={"collection": "backward", "samples": 60})
    steps = math.ceil(len(arrays[0]) / chain.batch_size)
    learned = sparsemble.learn(
        timed, arrays, recipe(chain=chain, prune=None, retrain=None), observer=Slow()
    )
    assert [record.seconds for record in learned.history.epochs] == [2.0 * steps] * chain.epochs
    assert learned.seconds["chain"] == 2.0 * steps * chain.epochs


@pytest.mark.parametrize(
    ("inputs", "label", "message"),
    [(0.0, 7, "label 7 of example 0 is outside the 3 classes"), (math.nan, 0, "NaN or infinity")],
)
def test_a_data_set_made_by_hand_is_checked(inputs, label, message):
    data = sparsemble.Dataset(
        torch.full((10, 8), inputs), torch.full((10,), label), ("none", "one", "two")
    )
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network(), data, recipe())


def test_names_that_look_like_indices_are_names(arrays):
    data = sparsemble.as_dataset(*arrays, class_names=("2", "1", "0"))
    ensemble = sparsemble.learn(network(), data, recipe(retrain=None)).ensemble
    renamed = sparsemble.as_dataset(arrays[0], 2 - arrays[1], class_names=("0", "1", "2"))
    assert ensemble.evaluate(renamed) == ensemble.evaluate(data)


def test_a_function_may_return_a_network_that_is_still_wanted(arrays):
    own = network()
    before = [parameter.detach().clone() for parameter in own.parameters()]
    chain = recipe().chain.model_copy(update={"chains": 2})
    short = recipe(chain=chain, prune=None, retrain=None)
    learned = sparsemble.learn(lambda: own, arrays, short)
    assert all(map(torch.equal, before, own.parameters()))
    first, second = (learned.ensemble[k].network[1].weight for k in (0, 3))
    assert not torch.equal(first, second)
    calm = chain.model_copy(update={"sampler": SamplerSettings(temperature=0)})
    with pytest.raises(InputError, match="gives every chain the same weights"):
        sparsemble.learn(lambda: own, arrays, recipe(chain=calm))
    with pytest.raises(InputError, match="a network is needed, not int"):
        sparsemble.learn(lambda: 3, arrays, recipe())


def test_the_loss_of_members_retrained_together_is_that_of_one(arrays):
    learned = sparsemble.learn(network(), arrays, recipe())
    first = next(r for r in learned.history.epochs if r.stage == "retrain")
    assert len(learned.ensemble) == 3
    assert 0 < first.loss < math.log(3)
    assert first.loss < first.potential < first.loss + 1


def test_a_loader_is_read_once_an_epoch_however_many_samples_are_taken(arrays):
    class Counted(TensorDataset):
        fetched = 0

        def __getitem__(self, index):
            Counted.fetched += 1
            return super().__getitem__(index)

    loader = DataLoader(Counted(*map(torch.as_tensor, arrays)), batch_size=10)
    chain = recipe().chain.model_copy(
        update={"collection": "backward", "samples": 20, "epochs": 1, "burn_in": 0, "interval": 1}
    )
    learned = sparsemble.learn(network(), loader, recipe(chain=chain, prune=None, retrain=None))
    assert len(learned.ensemble) == 20
    assert Counted.fetched < 2 * len(arrays[0])


def test_probabilities_of_half_precision_are_numbers_for_numpy(arrays):
    learned = sparsemble.learn(network().bfloat16(), arrays, recipe())
    assert learned.ensemble.predict_proba(arrays[0]).dtype == np.float32


def test_a_layout_says_what_is_multiplied(arrays):
    layout = replace(feedforward_layout(network()), matrices=())
    with pytest.raises(InputError, match="the layout has no matrices"):
        sparsemble.learn(network(), arrays, recipe(), layout=layout)
