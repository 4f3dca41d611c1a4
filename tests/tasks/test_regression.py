"""Regression: loss, noise, standardisation, files, and what is refused."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import Dataset as TorchDataset

import sparsemble
from scenarios import Skip, skip_layout
from sparsemble.data import Scaling, as_dataset
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.learning import Learned
from sparsemble.nets import GaussianNoise, feedforward
from sparsemble.recipes import Recipe, load_recipe
from sparsemble.tasks import Classification, Regression, task_for

NOISE = 0.5
"""The standard deviation of what nobody can predict."""


def recipe(**changes: object) -> Recipe:
    quick = {
        "chain.chains": 1,
        "chain.epochs": 12,
        "chain.burn_in": 4,
        "chain.interval": 4,
        "chain.schedule.lr": 0.02,
        "prior.penalty": 1e-4,
        "prune.sparsity": 0.3,
        "retrain.epochs": 3,
        "retrain.schedule.lr": 0.02,
    }
    return load_recipe("digits", quick | {k.replace("__", "."): v for k, v in changes.items()})


def lines(count: int = 400, targets: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and targets that are linear in them but for noise."""
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(count, 4))
    slopes = np.array([[1.0, -2.0, 0.0, 0.5], [0.0, 1.0, 1.0, 0.0]])[:targets]
    numbers = inputs @ slopes.T + NOISE * generator.normal(size=(count, targets))
    return inputs, numbers[:, 0] if targets == 1 else numbers


def learned(data: object = None, hidden: tuple[int, ...] = (16,), **how: object) -> Learned:
    torch.manual_seed(0)
    network = feedforward(4, list(hidden), how.pop("outputs", 1))
    task = how.pop("task", Regression())
    data = lines() if data is None else data
    return sparsemble.learn(network, data, how.pop("recipe", recipe()), task=task, **how)


@pytest.fixture(scope="module")
def one() -> Ensemble:
    return learned().ensemble


@pytest.fixture(scope="module")
def two() -> Ensemble:
    """Of two targets, with names and a predicted variance."""
    inputs, numbers = lines(targets=2)
    data = as_dataset(
        inputs,
        numbers,
        numeric=True,
        feature_names=["a", "b", "c", "d"],
        target_names=["left", "right"],
        scaling=Scaling.standard(torch.from_numpy(inputs)),
    )
    return learned(data, outputs=4, task=Regression(noise="predicted")).ensemble


# --- loss ------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [1, 3])
def test_the_loss_is_the_negative_log_density_of_the_standardised_targets(targets):
    raw = 5 + 3 * torch.randn(20, targets).double()
    scaling = Scaling.standard(raw)
    task = Regression(num_targets=targets, target_scaling=scaling)
    means, logs = torch.randn(2, 20, targets).double()
    normal = torch.distributions.Normal(means, (logs / 2).exp())
    expected = -normal.log_prob(scaling(raw)).sum(-1).mean()
    torch.testing.assert_close(task.loss(torch.cat([means, logs], -1), raw), expected)


def test_of_a_stack_every_member_has_its_own_loss():
    task, raw = Regression(num_targets=2), torch.randn(9, 2)
    outputs = torch.randn(5, 9, 4)
    expected = torch.stack([task.loss(own, raw) for own in outputs])
    torch.testing.assert_close(task.loss(outputs, raw), expected)


def test_to_know_nothing_costs_what_the_standard_normal_law_costs():
    # Standardised targets have the mean square 1: (log 2π + 1)/2 for each.
    task = Regression().training(lines(targets=2), outputs=2).task
    raw = torch.from_numpy(lines(targets=2)[1]).float()
    nothing = float(task.loss(torch.zeros(400, 4), raw))
    assert nothing == pytest.approx(math.log(2 * math.pi) + 1, rel=1e-5)
    assert task.guess(None) == pytest.approx(nothing, rel=1e-5)


def test_a_variance_has_a_least_value_so_that_the_loss_is_bounded_below():
    task = Regression(num_targets=1)
    sure = torch.tensor([[0.0, -1e6]])
    assert math.isfinite(float(task.loss(sure, torch.zeros(1, 1))))
    assert float(task.evidence(sure)[0, 1]) == pytest.approx(math.exp(-10))


# --- standardisation -------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "shift"), [(4.0, 0.0), (37.5, 1000.0)])
def test_an_affine_change_of_the_targets_changes_predictions_by_it_and_nothing_else(
    one, factor, shift
):
    inputs, numbers = lines()
    changed = learned((inputs, numbers * factor + shift)).ensemble
    exact = shift == 0  # by a power of two nothing is rounded differently
    for own, other in zip(one, changed, strict=True):
        assert own.cost == other.cost
        for mine, theirs in zip(own.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0 if exact else 1e-4)
    plain, moved = one.predict(inputs), changed.predict(inputs)
    assert moved == pytest.approx(factor * plain + shift, rel=1e-3, abs=1e-3 * factor)
    before, after = one.uncertainty(inputs), changed.uncertainty(inputs)
    for part in ("total", "epistemic", "aleatoric"):
        wanted = factor**2 * getattr(before, part).numpy()
        assert getattr(after, part).numpy() == pytest.approx(wanted, rel=2e-2, abs=1e-8)
    scores = one.evaluate((inputs, numbers)), changed.evaluate((inputs, numbers * factor + shift))
    for key in ("rmse", "mae", "crps", "width_90"):
        assert scores[1][key] == pytest.approx(factor * scores[0][key], rel=1e-3)
    assert scores[1]["nll"] == pytest.approx(scores[0]["nll"] + math.log(factor), abs=1e-3)
    assert scores[1]["coverage_90"] == pytest.approx(scores[0]["coverage_90"], abs=0.01)


def test_the_scaling_of_the_targets_is_that_of_the_training_data(one):
    targets = lines()[1]
    scaling = one.task.target_scaling
    assert scaling.shift.item() == pytest.approx(targets.mean(), rel=1e-4)
    assert 1 / scaling.factor.item() == pytest.approx(targets.std(), rel=1e-5)


def test_predictions_are_in_the_targets_own_units():
    inputs, targets = lines()
    ensemble = learned((inputs, 1000 + 50 * targets)).ensemble
    scaling = ensemble.task.target_scaling
    with torch.no_grad():
        x = torch.from_numpy(inputs).float()
        outputs = torch.stack([member(x) for member in ensemble]).double()
    means = outputs[..., 0] / scaling.factor.item() + scaling.shift.item()
    variances = outputs[..., 1].exp() / scaling.factor.item() ** 2
    assert ensemble.predict(inputs) == pytest.approx(means.mean(0).numpy(), rel=1e-6)
    total = variances.mean(0) + means.var(0, correction=0)
    assert ensemble.uncertainty(inputs).total.numpy() == pytest.approx(total.numpy(), rel=1e-5)


# --- noise -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_learned_noise_is_the_variance_that_the_data_have():
    # 2000 examples: the variance of the noise is known to 3 %, four times that is allowed.
    inputs, targets = lines(2000)
    longer = recipe(chain__epochs=40, chain__burn_in=30, chain__interval=10, retrain__epochs=10)
    ensemble = learned((inputs, targets), hidden=(), recipe=longer).ensemble
    found = float(ensemble.uncertainty(inputs[:5]).aleatoric.mean())
    assert found == pytest.approx(NOISE**2, rel=0.12)
    assert ensemble.evaluate(lines(2000, seed=1))["coverage_90"] == pytest.approx(0.9, abs=0.03)


def test_learned_noise_is_the_same_for_all_inputs(one):
    variances = one.evidence(lines()[0])[..., 1]
    assert bool((variances == variances[:, :1]).all())


@pytest.mark.slow
def test_predicted_noise_follows_the_inputs():
    # The deviation is 0.2 where the first feature is negative, and 2 where it is not.
    generator = np.random.default_rng(2)
    inputs = generator.normal(size=(2000, 4))
    deviations = np.where(inputs[:, 0] < 0, 0.2, 2.0)
    data = (inputs, inputs[:, 1] + deviations * generator.normal(size=2000))
    longer = recipe(
        chain__epochs=40,
        chain__burn_in=30,
        chain__interval=10,
        chain__schedule__lr=0.1,
        retrain__epochs=10,
    )
    task = Regression(noise="predicted")
    ensemble = learned(data, (32,), outputs=2, task=task, recipe=longer).ensemble
    found = ensemble.uncertainty(inputs).aleatoric.sqrt().numpy()
    assert np.median(found[inputs[:, 0] < -0.5]) == pytest.approx(0.2, rel=0.5)
    assert np.median(found[inputs[:, 0] > 0.5]) == pytest.approx(2.0, rel=0.3)


def test_aleatoric_and_epistemic_make_the_total(one, two):
    for ensemble in (one, two):
        found = ensemble.uncertainty(lines()[0])
        torch.testing.assert_close(found.aleatoric + found.epistemic, found.total)
        assert bool((found.epistemic > 0).all())
        evidence = ensemble.evidence(lines()[0])
        means, variances = evidence.chunk(2, -1)
        plain = (lambda t: t.squeeze(-1)) if ensemble is one else (lambda t: t)
        torch.testing.assert_close(found.epistemic, plain(means.var(0, correction=0)))
        torch.testing.assert_close(found.aleatoric, plain(variances.mean(0)))


# --- several targets, files ------------------------------------------------------------------


def test_shapes_of_predictions(one, two):
    inputs = lines()[0][:7]
    assert one.predict(inputs).shape == (7,)
    assert one.uncertainty(inputs).total.shape == (7,)
    assert two.predict(inputs).shape == (7, 2)
    assert two.uncertainty(inputs).total.shape == (7, 2)


def test_several_targets_are_learned_beside_each_other(two):
    inputs, numbers = lines(targets=2, seed=9)
    away = np.sqrt(((two.predict(inputs) - numbers) ** 2).mean(0))
    assert (away < 0.8 * numbers.std(0)).all()
    score = two.evaluate((inputs, numbers))
    assert score["rmse"] == pytest.approx(math.sqrt((away**2).mean()), rel=1e-5)
    assert score["mae"] == pytest.approx(np.abs(two.predict(inputs) - numbers).mean(), rel=1e-5)


def test_targets_are_matched_by_name(two):
    inputs, numbers = lines(targets=2, seed=9)
    names = {"numeric": True, "feature_names": ["a", "b", "c", "d"]}
    turned = as_dataset(inputs, numbers[:, ::-1].copy(), target_names=["right", "left"], **names)
    plain = as_dataset(inputs, numbers, target_names=["left", "right"], **names)
    assert two.evaluate(turned) == two.evaluate(plain)
    other = as_dataset(inputs, numbers, target_names=["left", "middle"], **names)
    with pytest.raises(InputError, match="target 'right' is missing"):
        two.evaluate(other)
    with pytest.raises(InputError, match="2 target names for 1 targets"):
        two.evaluate((inputs, numbers[:, 0]))


@pytest.mark.parametrize("name", ["one", "two"])
def test_everything_saved_comes_back(name, request, tmp_path):
    ensemble: Ensemble = request.getfixturevalue(name)
    ensemble.save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    inputs, numbers = lines(targets=1 if name == "one" else 2)
    assert torch.equal(loaded.evidence(inputs), ensemble.evidence(inputs))
    assert loaded.evaluate((inputs, numbers)) == ensemble.evaluate((inputs, numbers))
    assert loaded.task.model_dump() == ensemble.task.model_dump()
    assert loaded.cost == ensemble.cost


def table(path, names, rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


def test_a_table_is_answered_with_mean_deviation_and_interval(one, tmp_path):
    inputs = lines(5)[0]
    table(tmp_path / "rows.csv", ["w", "x", "y", "z"], inputs)
    [answer] = one.task.predict_file(one, tmp_path / "rows.csv")
    law = one.task.mixture(one.predictive(inputs))
    low, high = law.interval(0.9)
    columns = {
        "mean": law.mean,
        "standard_deviation": law.variance.sqrt(),
        "low_90": low,
        "high_90": high,
    }
    written = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(written[0]) == list(columns)
    for key, values in columns.items():
        wanted = values.flatten().tolist()
        assert [row[key] for row in answer.value] == pytest.approx(wanted, rel=1e-6)
        assert [float(row[key]) for row in written] == pytest.approx(wanted, rel=1e-4)


def test_columns_of_several_targets_have_their_names_and_features_any_order(two, tmp_path):
    inputs = lines(5)[0]
    table(tmp_path / "rows.csv", ["d", "c", "b", "a"], inputs[:, ::-1])
    [answer] = two.task.predict_file(two, tmp_path / "rows.csv")
    assert [row["left_mean"] for row in answer.value] == pytest.approx(two.predict(inputs)[:, 0])
    assert [row["right_mean"] for row in answer.value] == pytest.approx(two.predict(inputs)[:, 1])


def test_a_table_with_the_true_numbers_is_scored(one, tmp_path):
    inputs, numbers = lines(50, seed=3)
    table(tmp_path / "rows.csv", ["w", "x", "y", "z", "label"], np.c_[inputs, numbers])
    held = one.task.evaluation_from(str(tmp_path / "rows.csv"), "test", None)
    expected = one.evaluate((inputs, numbers))
    assert one.evaluate(held)["rmse"] == pytest.approx(expected["rmse"], rel=1e-5)
    table(tmp_path / "words.csv", ["w", "x", "y", "z", "label"], [[1, 2, 3, 4, "cat"]])
    with pytest.raises(InputError, match=r"words\.csv: the labels are no numbers.*cat"):
        one.task.evaluation_from(str(tmp_path / "words.csv"), "test", None)


def test_files_with_the_true_numbers_of_several_targets_are_scored_by_name(two, tmp_path):
    inputs, numbers = lines(50, targets=2, seed=3)
    names = ["right", "a", "b", "c", "d", "left"]
    table(tmp_path / "rows.csv", names, np.c_[numbers[:, 1], inputs, numbers[:, 0]])
    left, right = numbers.T
    np.savez(tmp_path / "rows.npz", inputs=inputs, right=right, left=left)
    expected = two.evaluate((inputs, numbers))
    for file in (tmp_path / "rows.csv", tmp_path / "rows.npz"):
        held = two.task.evaluation_from(str(file), "test", None)
        assert two.evaluate(held).metrics == pytest.approx(expected.metrics, rel=1e-5)
        [answer] = two.task.predict_file(two, file)
        assert len(answer.value) == 50  # targets are no features


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"left": np.zeros(3)}, "has no labels: .* or columns or arrays 'left' and 'right'"),
        (
            {"left": np.zeros(3), "right": np.zeros((3, 1))},
            r"'right' of shape \(3, 1\), not one per",
        ),
        ({"left": np.zeros(3), "right": np.zeros(4)}, r"'right' of shape \(4,\), not"),
        ({"labels": np.zeros(3)}, "2 target names for 1 targets"),
    ],
)
def test_a_file_without_all_targets_is_refused(two, tmp_path, arrays, message):
    np.savez(tmp_path / "rows.npz", inputs=np.zeros((3, 4)), **arrays)
    with pytest.raises(InputError, match=message):
        two.evaluate(two.task.evaluation_from(str(tmp_path / "rows.npz"), "test", None))


def test_a_guess_is_the_normal_law_of_the_training_targets():
    inputs, numbers = lines()
    task = Regression().training((inputs, numbers), outputs=1).task
    data = as_dataset(inputs, numbers, numeric=True)
    evidence = task.marginal(data, data.targets)
    assert evidence.shape == (1, 400, 2)
    assert evidence[0, 3].tolist() == pytest.approx([numbers.mean(), numbers.var()], rel=1e-5)


# --- what comes in ---------------------------------------------------------------------------


class Pairs(TorchDataset):
    """A data set as people write them: one example at a time."""

    def __init__(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        self.inputs, self.targets = torch.from_numpy(inputs).float(), torch.from_numpy(targets)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize(
    "given",
    [Pairs, lambda x, y: DataLoader(Pairs(x, y), batch_size=32, shuffle=True)],
    ids=["dataset", "loader"],
)
def test_a_loaders_targets_are_standardised_by_one_pass(given, targets):
    inputs, numbers = lines(targets=targets)
    training = Regression().training(given(inputs, 7 + 3 * numbers), outputs=targets)
    expected = Scaling.standard(torch.from_numpy(7 + 3 * numbers).view(400, -1))
    found = training.task.target_scaling
    torch.testing.assert_close(found.shift, expected.shift)
    torch.testing.assert_close(found.factor, expected.factor)
    assert (training.task.num_targets, training.task.input_shape) == (targets, (4,))
    drawn = torch.cat([y for _, y in training.batches(32).epoch(0)])
    assert sorted(drawn[:, 0].tolist()) == pytest.approx(
        sorted((7 + 3 * numbers.reshape(400, -1))[:, 0])
    )


@pytest.mark.slow
@pytest.mark.parametrize("watched", ["arrays", "dataset", "loader"])
def test_data_sets_and_loaders_are_learned_from_and_watched(watched):
    inputs, numbers = lines()
    held = lines(100, seed=5)
    validation = {
        "arrays": held,
        "dataset": Pairs(*held),
        "loader": DataLoader(Pairs(*held), batch_size=30),
    }[watched]
    told = learned(
        DataLoader(Pairs(inputs, numbers), batch_size=32, shuffle=True), validation=validation
    )
    assert "on the validation examples" in next(
        finding.text for finding in told.findings if finding.question == "diversity"
    )
    found = told.ensemble
    for key, value in found.evaluate(validation).metrics.items():
        assert value == pytest.approx(found.evaluate(held)[key], rel=1e-6)
    assert found.evaluate(held)["rmse"] < 0.6 * held[1].std()


def test_a_tensor_data_set_is_taken_as_the_arrays_it_holds(one):
    inputs, numbers = lines()
    tensors = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(numbers))
    again = learned(tensors).ensemble
    assert torch.equal(again.evidence(inputs), one.evidence(inputs))


def test_a_dataset_of_numbers_is_for_regression_and_anything_else_for_classification():
    inputs, numbers = lines()
    assert task_for(as_dataset(inputs, numbers, numeric=True)) == Regression()
    assert task_for((inputs, numbers)) == Classification()


class Noisy(Skip):
    """A network of one's own that ends in the noise."""

    def __init__(self) -> None:
        super().__init__(4, 5, 1)
        self.noise = GaussianNoise(1).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.noise(super().forward(x))


def test_a_network_of_ones_own_brings_its_noise():
    found = sparsemble.learn(
        Noisy(), lines(), recipe(), task=Regression(), layout=skip_layout(4, 5, 1)
    )
    assert found.ensemble.predict(lines()[0]).shape == (400,)
    assert found.ensemble.evaluate(lines())["rmse"] < lines()[1].std()


# --- what is refused -------------------------------------------------------------------------


def test_a_network_that_is_no_sequential_is_told_how_noise_is_learned():
    how = {"task": Regression(), "layout": skip_layout(4, 5, 1)}
    with pytest.raises(InputError, match=r"a Skip learns the noise .*GaussianNoise\(1\): add that"):
        sparsemble.learn(Skip(4, 5, 1), lines(), recipe(), **how)


@pytest.mark.parametrize(
    ("targets", "task", "message"),
    [
        ([0.5, 1.0, 2.0], None, r"not whole numbers; .* ask for task=Regression\(\)"),
        (["a", "b", "a"], Regression(), r"no numbers; .* ask for task=Classification\(\)"),
        ([1.0, math.nan, 2.0], Regression(), "1 of 3 targets are NaN .* that of example 1"),
        ([1.0, 2.0, math.inf], Regression(), "NaN or infinite, the first is that of example 2"),
        ([3.0, 3.0, 3.0], Regression(), "target 1 is 3 for every example: there is nothing to"),
        ([[1.0, 2], [3, 4], [5, 6]], Regression(), "2 targets, 1 outputs .*needs 2, one each"),
        ([1.0, 2.0], Regression(), "3 inputs but 2 targets"),
        ([[[1.0]]] * 3, Regression(), "one number or one row of numbers per example"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused_with_the_remedy(targets, task, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(nn.Linear(4, 1), (np.eye(4)[:3], targets), recipe(), task=task)


def test_one_example_is_not_enough():
    with pytest.raises(InputError, match="one example: a regression needs at least two"):
        sparsemble.learn(nn.Linear(4, 1), (np.eye(4)[:1], [1.0]), recipe(), task=Regression())


def test_the_constant_target_is_named():
    data = as_dataset(
        np.eye(3), [[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]], numeric=True, target_names=["a", "b"]
    )
    with pytest.raises(InputError, match="b is 5 for every example"):
        Regression().training(data)


def test_classes_are_not_taken_for_numbers():
    data = as_dataset(np.eye(3), [0, 1, 2])
    with pytest.raises(InputError, match=r"has classes; .* ask for task=Classification\(\)"):
        Regression().training(data)


@pytest.mark.parametrize(
    ("outputs", "noise", "message"),
    [
        (2, "learned", "1 target, 2 outputs of the network: it needs 1, one each"),
        (1, "predicted", "1 target, 1 outputs .*needs 2, a mean and a log variance each"),
    ],
)
def test_a_network_with_other_outputs_than_the_targets_need_is_refused(outputs, noise, message):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(nn.Linear(4, outputs), lines(), recipe(), task=Regression(noise=noise))


@pytest.mark.parametrize(
    ("targets", "outputs", "message"),
    [
        (lines(64)[1] * math.nan, 1, "batch 0 of the data loader: .* NaN or infinite"),
        (lines(64)[1], 2, "batch 0 of the data loader: 1 targets per example, not 2"),
        (np.ones(64), 1, "target 1 is 1 for every example"),
    ],
)
def test_a_loaders_targets_are_checked_when_they_come(targets, outputs, message):
    loader = DataLoader(Pairs(lines(64)[0], targets), batch_size=16)
    with pytest.raises(InputError, match=message):
        sparsemble.learn(nn.Linear(4, outputs), loader, recipe(), task=Regression())
