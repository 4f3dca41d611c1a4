"""Networks with several inputs, and with integers for inputs, learned from end to end."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import sparsemble
from several_inputs import Reader, Siamese
from small_runs import KillAt, Killed, network, recipe
from sparsemble.augmentations import InputNoise
from sparsemble.errors import InputError
from sparsemble.nets import RecurrentClassifier
from sparsemble.programs import Program
from sparsemble.stages import PruneSettings
from sparsemble.tasks import Classification, Regression

pytestmark = pytest.mark.slow

EXAMPLES = 80

thorough = pytest.mark.thorough


def short(**changes):
    """Two members in a second."""
    whole = recipe()
    chain = whole.chain.model_copy(update={"epochs": 6, "burn_in": 2, "interval": 2})
    return recipe(
        **({"chain": chain, "retrain": whole.retrain.model_copy(update={"epochs": 2})} | changes)
    )


def drawn() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def pairs():
    generator = drawn()
    left, right = (torch.randn(EXAMPLES, 4, generator=generator) for _ in range(2))
    return (left, right), ((left * right).sum(1) > 0).long()


def sentences():
    generator = drawn()
    tokens = torch.randint(12, (EXAMPLES, 6), generator=generator)
    mask = torch.arange(6) >= torch.randint(1, 7, (EXAMPLES, 1), generator=generator)
    return {"tokens": tokens, "mask": mask}, (tokens[:, 0] > 5).long()


KINDS = {"pairs": (Siamese, pairs), "sentences": (Reader, sentences)}


def fresh(kind: type[nn.Module], *how) -> nn.Module:
    torch.manual_seed(3)
    return kind(*how)


@pytest.fixture(scope="module", params=KINDS, ids=str)
def undisturbed(request):
    """A kind of network, its data, and what a run gives that nobody disturbs."""
    kind, data = KINDS[request.param]
    return kind, data(), sparsemble.learn(fresh(kind), data(), short())


@pytest.fixture(scope="module")
def reader():
    """An ensemble that reads sentences."""
    return sparsemble.learn(fresh(Reader), sentences(), short()).ensemble


@pytest.mark.parametrize("at", [("chain", 13), pytest.param(("retrain", 5), marks=thorough)])
def test_a_run_killed_anywhere_resumes_to_the_same_bits(undisturbed, tmp_path, monkeypatch, at):
    kind, data, whole = undisturbed
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(fresh(kind), data, short(), folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(fresh(kind), data, short(), folder=tmp_path)
    wanted = whole.ensemble.predict_proba(data[0])
    assert np.array_equal(wanted, resumed.ensemble.predict_proba(data[0]))
    saved = sparsemble.Ensemble.load(tmp_path)
    assert saved.task == whole.ensemble.task
    assert np.array_equal(wanted, saved.predict_proba(data[0]))


def test_predictions_are_asked_for_as_was_learned(undisturbed):
    _, data, learned = undisturbed
    ensemble = learned.ensemble
    assert all(isinstance(member.network, Program) for member in ensemble)
    probabilities = ensemble.predict_proba(data[0])
    assert probabilities.shape == (EXAMPLES, 2)
    assert np.array_equal(ensemble(data[0]).numpy(), probabilities)
    assert np.array_equal(ensemble.predict(data[0]), probabilities.argmax(1))
    wrong = (ensemble.predict(data[0]) != data[1].numpy()).mean()
    assert ensemble.evaluate(data)["error"] == pytest.approx(wrong)
    assert ensemble.uncertainty(data[0]).total.shape == (EXAMPLES,)


def test_names_decide_and_not_their_order(undisturbed):
    kind, data, learned = undisturbed
    if kind is Reader:
        turned = {"mask": data[0]["mask"].numpy(), "tokens": data[0]["tokens"].int()}
        wanted = learned.ensemble.predict_proba(data[0])
        assert np.array_equal(learned.ensemble.predict_proba(turned), wanted)


def test_a_padded_word_is_not_read(reader):
    data = sentences()
    other = {**data[0], "tokens": torch.where(data[0]["mask"], 0, data[0]["tokens"])}
    np.testing.assert_allclose(
        reader.predict_proba(other), reader.predict_proba(data[0]), atol=1e-6
    )


def test_a_data_set_and_a_loader_of_several_inputs_serve_as_well():
    (left, right), targets = pairs()
    items = [((left[k], right[k]), int(targets[k])) for k in range(EXAMPLES)]
    task = Classification(num_classes=2)
    # Batches of two hold as many inputs as examples.
    for data in (items, DataLoader(items, batch_size=26, shuffle=True)):
        given = data if isinstance(data, DataLoader) else _Items(data)
        learned = sparsemble.learn(
            fresh(Siamese), given, short(), task=task, validation=pairs()
        ).ensemble
        assert learned.evaluate(given)["error"] == learned.evaluate(pairs())["error"]


class _Items(torch.utils.data.Dataset):
    def __init__(self, items) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_the_noise_of_numbers_is_learned_with_several_inputs():
    (left, right), _ = pairs()
    numbers = (left * right).sum(1)
    data = ({"left": left, "right": right}, numbers)
    learned = sparsemble.learn(fresh(Siamese, 1), data, short(), task=Regression())
    assert learned.ensemble.predict(data[0]).shape == (EXAMPLES,)
    assert learned.ensemble.evaluate(data)["rmse"] < float(numbers.std())


# Integers as the only input


class Bag(nn.Module):
    """The mean of embedded words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(torch.relu(self.embed(words).mean(1)))


class Squeezed(nn.Module):
    """Numbers, through a normalisation that no layout by hand describes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.norm(self.first(x))))


@pytest.mark.parametrize("given", ["array", "tensors", "loader"])
def test_integers_reach_a_network_that_cannot_take_numbers_as_they_are(given):
    words, labels = sentences()[0]["tokens"], sentences()[1]
    forms = {
        "array": (words.numpy(), labels.numpy()),
        "tensors": TensorDataset(words, labels),
        "loader": DataLoader(TensorDataset(words, labels), batch_size=25),
    }
    task = Classification(num_classes=2)
    ensemble = sparsemble.learn(fresh(Bag), forms[given], short(), task=task).ensemble
    wanted = ensemble.predict_proba(words)
    assert np.array_equal(ensemble.predict_proba(words.tolist()), wanted)
    assert ensemble.predict_proba(words[:, :4]).shape == (EXAMPLES, 2)  # of any length
    assert np.array_equal(ensemble.predict_proba(words.double()), wanted)  # as from a file
    with pytest.raises(InputError, match=r"fractions, .* learned with int64: give such numbers"):
        ensemble.predict(words + 0.5)


@pytest.mark.parametrize(
    "network",
    [
        nn.Sequential(nn.Embedding(500, 4), nn.Flatten(), nn.Linear(24, 2)),
        RecurrentClassifier([6], 2, words=500, embedding=4),  # which takes floats as well
    ],
    ids=["embedding", "recurrent"],
)
def test_words_are_never_scaled(network):
    many = sentences()[0]["tokens"] * 40
    chosen = short(choose=True, prune=PruneSettings(flops=1.0))
    learned = sparsemble.learn(network, (many, sentences()[1]), chosen)
    assert learned.ensemble.task.scaling.is_identity
    assert [part.dtype for part in learned.ensemble.task.input_parts] == ["int64"]
    assert learned.ensemble.predict(many).shape == (EXAMPLES,)


def test_integers_are_numbers_to_a_network_that_takes_numbers():
    table, labels = sentences()[0]["tokens"], sentences()[1]
    ensemble = sparsemble.learn(fresh(Squeezed), (table, labels), short()).ensemble
    assert ensemble.task.input_parts is None
    wanted = ensemble.predict_proba(table)
    assert np.array_equal(ensemble.predict_proba(table.double()), wanted)


def test_a_network_that_takes_neither_is_told_why():
    with pytest.raises(InputError, match=r"neither as numbers \(.*nor as the integers they are"):
        sparsemble.learn(fresh(Bag), (sentences()[0]["tokens"] + 9, sentences()[1]), short())


# What is refused


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x: {"tokens": x["tokens"]}, r"Reader cannot .*'mask'.*it takes tokens, mask"),
        (lambda x: {**x, "lengths": x["mask"].sum(1)}, "it takes tokens, mask; give the data's"),
        (lambda x: (x["tokens"], x["mask"], x["mask"]), "it takes tokens, mask"),
    ],
)
def test_names_that_the_network_does_not_take_are_refused(inputs, message):
    data = sentences()
    with pytest.raises(InputError, match=message):
        sparsemble.learn(fresh(Reader), (inputs(data[0]), data[1]), short())


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x: {"tokens": x["tokens"]}, "inputs 'tokens', the ensemble .* 'mask', 'tokens'"),
        (lambda x: (x["tokens"], x["mask"]), "2 inputs without a name, the ensemble was learned"),
        (lambda x: x["tokens"], "1 input without a name, the ensemble was learned with inputs"),
        (lambda x: {**x, "tokens": x["tokens"] + 0.5}, "input tokens: fractions, the ensemble"),
        (lambda x: {**x, "mask": x["mask"][:, 0]}, r"input mask: shape \(80,\), .* 2 dimensions"),
        (lambda x: {**x, "mask": x["mask"][:9]}, "different lengths"),
    ],
)
def test_predictions_for_other_inputs_are_refused(reader, inputs, message):
    with pytest.raises(InputError, match=message):
        reader.predict(inputs(sentences()[0]))


def test_several_inputs_are_not_perturbed():
    chain = short().chain.model_copy(update={"augment": InputNoise()})
    with pytest.raises(InputError, match="perturbs a single input of numbers"):
        sparsemble.learn(fresh(Siamese), pairs(), short(chain=chain))


def test_a_feed_forward_network_takes_one_input():
    with pytest.raises(InputError, match="the data have 2 inputs, and the network"):
        sparsemble.learn(network(), pairs(), short())


def test_a_run_on_other_numbers_of_any_input_is_another_run(tmp_path):
    (left, right), targets = pairs()
    sparsemble.learn(fresh(Siamese), pairs(), short(), folder=tmp_path)
    with pytest.raises(InputError, match="data"):
        sparsemble.learn(fresh(Siamese), ((left, right + 1), targets), short(), folder=tmp_path)
