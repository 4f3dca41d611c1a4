"""Taggers and segmenters learned from end to end."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

import sparsemble
from small_runs import KillAt, Killed, recipe
from sparsemble.ensemble.comparison import compare, log_scores
from sparsemble.errors import InputError
from sparsemble.tasks import Classification
from sparsemble.tasks.sections.classification import sections

pytestmark = pytest.mark.slow

EXAMPLES = 80


def short(**changes):
    """Two members in a second, taught by the samples."""
    whole = recipe()
    chain = whole.chain.model_copy(update={"epochs": 6, "burn_in": 2, "interval": 2})
    retrain = whole.retrain.model_copy(update={"epochs": 2, "targets": 0.5})
    return recipe(**({"chain": chain, "retrain": retrain} | changes))


class Tagger(nn.Module):
    """A class for every word, read both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.read = nn.GRU(8, 10, batch_first=True, bidirectional=True)
        self.head = nn.Linear(20, 3)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.read(self.embed(words))[0])


class Segmenter(nn.Module):
    """A class for every pixel: down, up again, and across."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.norm = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.deep, self.up = nn.Conv2d(6, 8, 3, padding=1), nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.head = nn.Conv2d(12, 2, 1)

    def forward(self, picture: Tensor) -> Tensor:
        wide = torch.relu(self.norm(self.down(picture)))
        deep = torch.relu(self.up(torch.relu(self.deep(F.max_pool2d(wide, 2)))))
        return self.head(torch.cat([wide, deep], dim=1))


def sentences():
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(12, (EXAMPLES, 5), generator=generator)
    padding = torch.arange(5) >= torch.randint(1, 6, (EXAMPLES, 1), generator=generator)
    return words, (words % 3).masked_fill(padding, -100)


def pictures():
    drawn = torch.randn(EXAMPLES, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return drawn, (F.avg_pool2d(drawn, 3, 1, 1) > 0).squeeze(1).long()


KINDS = {"sentences": (Tagger, sentences), "pictures": (Segmenter, pictures)}


def fresh(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return kind()


@pytest.fixture(scope="module", params=KINDS, ids=str)
def undisturbed(request):
    """A kind of network, its data, and what a run gives that nobody disturbs."""
    kind, data = KINDS[request.param]
    return kind, data(), sparsemble.learn(fresh(kind), data(), short(), baseline=1)


@pytest.mark.parametrize(
    "at", [("chain", 13), pytest.param(("retrain", 5), marks=pytest.mark.thorough)]
)
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


def test_predictions_have_the_shape_of_the_targets(undisturbed):
    _, (inputs, targets), learned = undisturbed
    ensemble = learned.ensemble
    probabilities = ensemble.predict_proba(inputs)
    assert probabilities.shape == (*targets.shape, ensemble.task.sizes[1])
    np.testing.assert_allclose(probabilities.sum(-1), 1, rtol=1e-5)
    assert np.array_equal(ensemble.predict(inputs), probabilities.argmax(-1))
    assert ensemble.uncertainty(inputs).total.shape == targets.shape


def test_errors_are_counted_at_the_positions_that_count(undisturbed):
    _, (inputs, targets), learned = undisturbed
    counted = (targets != -100).numpy()
    wrong = (learned.ensemble.predict(inputs) != targets.numpy())[counted].mean()
    score = learned.ensemble.evaluate((inputs, targets))
    assert score["error"] == pytest.approx(wrong)
    shares = np.bincount(targets.numpy()[counted]) / counted.sum()
    assert wrong < 1 - shares.max()  # more was learned than the commonest class
    assert score.count == EXAMPLES


def test_an_example_is_the_unit_that_is_drawn_again(undisturbed):
    _, data, learned = undisturbed
    assert learned.dense is not None
    assert log_scores(learned.ensemble, data).shape == (EXAMPLES,)
    found = compare(learned.ensemble, learned.dense.ensemble, data)["nll"]
    assert found.own == pytest.approx(learned.ensemble.evaluate(data)["nll"])
    assert found.low < found.own - found.other < found.high
    assert "NLL" in learned.verdict(data).text


def test_a_report_shows_calibration_and_confusions_of_positions(undisturbed):
    _, data, learned = undisturbed
    task = learned.ensemble.task
    shown = list(sections(task, learned.ensemble, task.evaluation(data)))
    assert len(shown) == 2


def test_words_that_do_not_count_are_not_learned_from():
    words, targets = sentences()
    chosen = short(prune=None, retrain=None)
    learned = sparsemble.learn(fresh(Tagger), (words, targets), chosen)
    marked = targets.masked_fill(targets == -100, -1)
    task = Classification(ignore=-1)
    other = sparsemble.learn(fresh(Tagger), (words, marked), chosen, task=task)
    assert np.array_equal(
        learned.ensemble.predict_proba(words), other.ensemble.predict_proba(words)
    )


def test_a_loader_may_pad_every_batch_to_a_length_of_its_own():
    words, targets = sentences()
    batches = [(words[k : k + 20, :n], targets[k : k + 20, :n]) for k, n in ((0, 5), (20, 4))]
    loader = DataLoader(batches, batch_size=None)
    task = Classification(num_classes=3)
    learned = sparsemble.learn(
        fresh(Tagger), loader, short(), task=task, num_data=40, validation=(words, targets)
    )
    assert learned.ensemble.predict(words[:, :3]).shape == (EXAMPLES, 3)
    counted = sum(int((own != -100).sum()) for _, own in batches)
    wrong = sum(
        int(((learned.ensemble.predict(x) != y.numpy()) & (y != -100).numpy()).sum())
        for x, y in batches
    )
    assert learned.ensemble.evaluate(loader)["error"] == pytest.approx(wrong / counted)


def test_layers_of_a_feed_forward_network_are_applied_to_every_position():
    steps = torch.randn(EXAMPLES, 5, 4, generator=torch.Generator().manual_seed(0))
    data = (steps, (steps[..., 0] > 0).long())
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))
    ensemble = sparsemble.learn(network, data, short()).ensemble
    assert ensemble.predict(steps).shape == (EXAMPLES, 5)
    assert ensemble.evaluate(data)["error"] < 0.2


def test_a_network_without_positions_is_refused():
    inputs = torch.randn(EXAMPLES, 8)
    network = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 3))
    with pytest.raises(InputError, match=r"must return \(2, 5, classes\) .*, not \(2, 3\)"):
        sparsemble.learn(network, (inputs, sentences()[1]), short())


def test_targets_of_other_dimensions_are_refused(undisturbed):
    _, (inputs, targets), learned = undisturbed
    with pytest.raises(InputError, match="the ensemble was learned with"):
        learned.ensemble.evaluate((inputs, targets.clamp_min(0).flatten(1)[:, 0]))


def test_names_that_a_tagger_does_not_take_are_refused():
    words, targets = sentences()
    with pytest.raises(InputError, match="unexpected keyword argument 'tokens'"):
        sparsemble.learn(fresh(Tagger), ({"tokens": words}, targets), short())
