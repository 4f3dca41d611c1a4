"""How good the growing ensemble is, measured with every sample and every member."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import sparsemble
from small_runs import network, recipe
from sparsemble.data import Corpus, Text, digits, grammar
from sparsemble.errors import InputError
from sparsemble.learning import learn
from sparsemble.learning.monitor import Monitor
from sparsemble.members import Member
from sparsemble.nets import LanguageModel
from sparsemble.recipes import load_recipe
from sparsemble.runs import RunFolder
from sparsemble.stages import Callback, EpochRecord, History, Rollback, Sample
from sparsemble.tasks import Classification

pytestmark = pytest.mark.slow

QUICK = {"chain.chains": 2, "chain.epochs": 6, "chain.burn_in": 2, "chain.interval": 2}
TEXT = {
    "network.hidden": [12],
    "chain.epochs": 3,
    "chain.burn_in": 1,
    "chain.interval": 1,
    "retrain.epochs": 1,
    "retrain.schedule.factor": 2.0,
}


class StopAfter(Callback):
    """Kills the run after so many samples and retrained members."""

    def __init__(self, samples: int) -> None:
        self.left = samples

    def sampled(self, sample, save):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def images(folder=None, callback=None, **how):
    train, _ = digits()
    chosen = load_recipe("digits", {**QUICK, "retrain.epochs": 2})
    return learn(
        lambda: chosen.network.build(64, 10),
        train,
        chosen,
        folder=folder,
        callback=callback,
        **how,
    )


def small_corpus() -> Corpus:
    return grammar().beginning(0.02)


def text(folder=None, callback=None):
    corpus, chosen = small_corpus(), load_recipe("grammar", TEXT)
    words = len(corpus.vocabulary)
    return learn(
        lambda: chosen.network.build(words, words),
        corpus,
        chosen,
        folder=folder,
        callback=callback,
    )


def test_every_sample_and_member_is_measured_alone_and_with_those_before_it():
    _, test = digits()
    learned = images(validation=test)
    records = learned.history.samples
    assert [(r.stage, r.chain, r.members) for r in records] == [
        *(("chain", chain, 2 * chain + k) for chain in (0, 1) for k in (1, 2)),
        *(("pruned", chain, 2 * chain + k) for chain in (0, 1) for k in (1, 2)),
        *(("retrain", 0, member) for member in (1, 2, 3, 4)),
    ]
    assert {(r.metric, r.on) for r in records} == {("error", "validation examples")}
    score = learned.ensemble.evaluate(test)
    assert records[-1].together == pytest.approx(score["error"])
    own = [r.alone for r in records if r.stage == "retrain"]
    assert sum(own) / 4 == pytest.approx(score.of_a_member("error"))
    assert own[0] == records[8].together


def test_without_validation_data_the_training_examples_are_watched():
    train, _ = digits()
    learned = images()
    assert learned.history.samples[-1].on == "training examples"
    assert learned.history.samples[-1].together == learned.ensemble.evaluate(train)["error"]
    assert any("of the training examples" in f.text for f in learned.findings)


def test_a_language_model_is_watched_on_its_validation_text():
    learned = text()
    tokens = small_corpus().validation[:20_000]
    score = learned.ensemble.evaluate(Text(tokens, streams=20))
    records = [r for r in learned.history.samples if r.stage == "retrain"]
    assert [r.members for r in records] == [1, 2]
    assert [r.together for r in records] == pytest.approx(score.curve["perplexity"])
    assert [r.alone for r in records] == pytest.approx(score.members["perplexity"])


@pytest.mark.parametrize("kind", [images, text])
@pytest.mark.parametrize("killed_after", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_a_resumed_run_goes_on_measuring_where_it_stopped(kind, killed_after, tmp_path):
    whole = kind()
    with pytest.raises(KeyboardInterrupt):
        kind(tmp_path, StopAfter(killed_after))
    resumed = kind(tmp_path)
    assert resumed.history.samples == whole.history.samples
    run = RunFolder(tmp_path)
    stages = (run.chain, run.stage("pruned"), run.retrain)
    assert [r for stage in stages for r in stage.history().samples] == whole.history.samples


def test_watching_changes_no_bits():
    _, test = digits()
    watched, not_watched = images(validation=test), images()
    for one, other in zip(watched.ensemble, not_watched.ensemble, strict=True):
        for a, b in zip(one.parameters(), other.parameters(), strict=True):
            assert torch.equal(a, b)


def test_validation_data_must_fit():
    _, test = digits()
    strange = sparsemble.as_dataset(
        test.inputs, test.targets % 3, class_names=("zero", "one", "two")
    )
    with pytest.raises(InputError, match="validation examples: the data has a class 'zero'"):
        images(validation=strange)
    narrow = sparsemble.as_dataset(test.inputs[:, :9], test.targets)
    with pytest.raises(InputError, match=r"validation examples.*reads 64 features per row"):
        images(validation=narrow)
    with pytest.raises(InputError, match="validation is only for examples"):
        learn(LanguageModel(234, 4, [4]), small_corpus(), load_recipe("grammar"), validation=(1, 2))


@pytest.mark.parametrize("form", ["pair", "tensors", "loader"])
def test_validation_data_of_any_form_are_watched_the_same(form, arrays):
    tensors = TensorDataset(*map(torch.as_tensor, arrays))
    forms = {"pair": arrays, "tensors": tensors, "loader": DataLoader(tensors, batch_size=77)}
    dense = recipe(prune=None, retrain=None)
    learned = learn(network(), arrays, dense, validation=forms[form])
    last = learned.history.samples[-1]
    assert (last.members, last.on) == (3, "validation examples")
    assert last.together == pytest.approx(learned.ensemble.evaluate(arrays)["error"])


def test_members_are_kept_as_pruned_and_as_retrained(tmp_path):
    learned = images(tmp_path)
    pruned = sparsemble.Ensemble.load(tmp_path / "pruned")
    parts = RunFolder(tmp_path).chain.parts()
    samples = [sample for part in parts for sample in part.samples(part.checkpoint())]
    for before, after, sample in zip(pruned, learned.ensemble, samples, strict=True):
        assert before.cost == after.cost
        kept = before.network.get_parameter("0.weight")[before.masks["0.weight"]]
        assert torch.isin(kept, sample.parameters["0.weight"]).all()


def saying(probability: float) -> Member:
    """A member that gives the first of two classes always the same probability."""
    fixed = torch.nn.Sequential(torch.nn.Linear(1, 2))
    with torch.no_grad():
        fixed[0].weight.zero_()
        fixed[0].bias.copy_(torch.tensor([probability, 1 - probability]).log())
    return Member.dense(fixed, sparsemble.layout_of(fixed)).eval()


def test_what_a_rollback_undid_is_forgotten():
    members = [saying(0.6), saying(0.01), saying(0.45)]
    task = Classification(class_names=("right", "wrong"), input_shape=(1,))
    held = task.evaluation((torch.zeros(4, 1), torch.zeros(4).long()), "four examples")
    monitor = Monitor(
        "chain", task, held, lambda sample: [members.pop(0)], callback=Callback(), folder=None
    )
    for step in (10, 20):
        monitor.measure(Sample(0, step, {}))
    assert [(r.alone, r.together) for r in monitor.records] == [(0.0, 0.0), (1.0, 1.0)]
    rollback = Rollback("chain", 0, 25, "loss", 15, 1, 0.5)
    monitor.rolled_back(rollback, lambda: None)
    assert [r.step for r in monitor.records] == [10]
    history = History.of([EpochRecord("chain", 0, 2, 0.0, 0.0, "loss", *[0.0] * 5), rollback])
    assert history.epochs == []
    monitor.measure(Sample(0, 20, {}))
    record = monitor.records[-1]
    # 0.6 and 0.45 together are right; with the 0.01 that was undone they would not be.
    assert (record.members, record.alone, record.together) == (2, 1.0, 0.0)


def test_what_a_rollback_undid_is_not_kept_if_nothing_is_left_of_its_chain(tmp_path):
    members = [saying(0.6), saying(0.7)]
    task = Classification(class_names=("right", "wrong"), input_shape=(1,))
    held = task.evaluation((torch.zeros(4, 1), torch.zeros(4).long()), "four examples")
    folder = RunFolder(tmp_path).stage("chain")
    folder.path.mkdir(parents=True)
    monitor = Monitor(
        "chain", task, held, lambda sample: [members.pop(0)], callback=Callback(), folder=folder
    )
    for chain in (0, 1):
        monitor.measure(Sample(chain, 20, {}))
    monitor.rolled_back(Rollback("chain", 1, 25, "loss", 15, 1, 0.5), lambda: None)
    assert [(record.chain, record.step) for record in folder.measured()] == [(0, 20)]


def test_validation_data_s_columns_are_put_into_the_order_learned(arrays):
    table = pd.DataFrame(arrays[0], columns=[f"f{k}" for k in range(8)])
    backwards = table[table.columns[::-1]]
    short = recipe(prune=None, retrain=None)
    measured = [
        sparsemble.learn(network(), (table, arrays[1]), short, validation=(inputs, arrays[1]))
        for inputs in (table, backwards)
    ]
    assert measured[0].history.samples == measured[1].history.samples
