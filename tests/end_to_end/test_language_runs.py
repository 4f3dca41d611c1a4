"""Language models learned in whole runs: resumed, in short floats, on bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import sparsemble
from small_runs import KillAt, Killed
from sparsemble.data import grammar
from sparsemble.errors import InputError
from sparsemble.learning.fitting import fit
from sparsemble.nets import LanguageModel, TransformerLanguageModel
from sparsemble.priors import GroupSparse
from sparsemble.recipes import Recipe
from sparsemble.samplers import Constant, Exponential, SGLDSettings
from sparsemble.stages import ChainSettings, PruneSettings, RetrainSettings
from sparsemble.tasks import LanguageModelling

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus():
    """The beginning of the built-in text."""
    whole = grammar()
    return replace(
        whole, train=whole.train[:2000], validation=whole.validation[:300], test=whole.test[:300]
    )


def fresh() -> LanguageModel:
    return LanguageModel(234, 8, [8, 8], dropout=0.1)


def recipe(*, batch_sizes=(10, 10), autocast=False, **changes) -> Recipe:
    how = {"clip": 5.0, "autocast": autocast}
    fields = {
        "seed": 1,
        "task": LanguageModelling(window=10),
        "prior": GroupSparse(penalty=1e-3),
        "chain": ChainSettings(
            sampler=SGLDSettings(temperature=1e-3),
            schedule=Constant(lr=0.5),
            epochs=4,
            burn_in=2,
            interval=1,
            batch_size=batch_sizes[0],
            **how,
        ),
        "prune": PruneSettings(sparsity=0.7),
        "retrain": RetrainSettings(
            schedule=Exponential(lr=0.5, factor=1.1), epochs=3, batch_size=batch_sizes[1], **how
        ),
    }
    return Recipe(**(fields | changes))


@pytest.fixture(scope="module")
def learned(corpus):
    return sparsemble.learn(fresh, corpus, recipe())


def test_a_run_gives_a_sparse_ensemble_that_learned_something(corpus, learned):
    assert learned.ensemble.task.vocabulary == corpus.vocabulary
    dense = learned.ensemble.cost.dense_parameters
    assert dense == 2 * 234 * 8 + 2 * 32 * 16
    assert learned.ensemble.cost.parameters <= 2 * round(0.3 * dense)
    assert learned.ensemble.evaluate(corpus.validation)["perplexity"] < 150  # guessing has 234
    for member in learned.ensemble:
        for name, mask in member.masks.items():
            assert not member.network.get_parameter(name)[~mask].any()
    stages = [(record.stage, record.chain, record.epoch) for record in learned.history.epochs]
    retrained = [("retrain", member, epoch) for member in (0, 1) for epoch in (1, 2, 3)]
    assert stages == [("chain", 0, epoch) for epoch in (1, 2, 3, 4)] + retrained


MORE = pytest.mark.thorough


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(("chain", 7, 0), marks=MORE),
        ("chain", 65, 0),
        pytest.param(("retrain", 13, 0), marks=MORE),
        ("retrain", 25, 1),
    ],
)
def test_a_run_stopped_within_an_epoch_and_started_again_gives_the_same_bits(
    corpus, learned, tmp_path, monkeypatch, at
):
    # A checkpoint after every step: the resumed run begins in the middle of a carried state.
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(fresh, corpus, recipe(), folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(fresh, corpus, recipe(), folder=tmp_path)
    saved = sparsemble.Ensemble.load(tmp_path / "ensemble")
    for found in (resumed.ensemble, saved):
        for new, old in zip(found, learned.ensemble, strict=True):
            parameters = dict(new.network.named_parameters())
            for name, parameter in old.network.named_parameters():
                assert torch.equal(parameters[name], parameter)
    losses = [[record.loss for record in run.history.epochs] for run in (resumed, learned)]
    assert losses[0] == losses[1]


def causal() -> TransformerLanguageModel:
    return TransformerLanguageModel(234, 16, context=6, layers=1, heads=2, dropout=0.1)


@pytest.mark.thorough  # traced networks and language models go on like that elsewhere
@pytest.mark.parametrize("at", [("chain", 26, 0), ("retrain", 8, 1)])
def test_a_traced_network_that_reads_words_again_goes_on_to_the_same_bits(
    corpus, tmp_path, monkeypatch, at
):
    corpus = replace(corpus, train=corpus.train[:800])
    task = LanguageModelling(window=10, context=6)
    chain = recipe().chain.model_copy(update={"collection": "means", "shed_after": 1})
    prune = PruneSettings(flops=1.5, steps=2)
    how = recipe(task=task, chain=chain, prune=prune, prior=GroupSparse(penalty=5e-3))
    whole = sparsemble.learn(causal, corpus, how)
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    with pytest.raises(Killed):
        sparsemble.learn(causal, corpus, how, folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(causal, corpus, how, folder=tmp_path)
    for new, old in zip(resumed.ensemble, whole.ensemble, strict=True):
        for parameter, other in zip(
            new.network.parameters(), old.network.parameters(), strict=True
        ):
            assert torch.equal(parameter, other)
    assert whole.history.sheds
    assert resumed.history.sheds == whole.history.sheds


def regularised() -> LanguageModel:
    return LanguageModel(
        234,
        8,
        [8, 8],
        dropout=0.1,
        output_dropout=0.2,
        variational=True,
        weight_dropout=0.2,
        activation_penalty=2.0,
        change_penalty=1.0,
    )


@pytest.fixture(scope="module")
def learned_with_everything(corpus):
    task = LanguageModelling(window=10, jitter=0.25)
    return sparsemble.learn(regularised, corpus, recipe(task=task))


@pytest.mark.parametrize("at", [pytest.param(("chain", 65, 0), marks=MORE), ("retrain", 25, 1)])
def test_a_regularised_run_on_moving_windows_goes_on_to_the_same_bits(
    corpus, learned_with_everything, tmp_path, monkeypatch, at
):
    monkeypatch.setattr("sparsemble.runs.checkpointing.CHECKPOINT_EVERY", 0.0)
    how = recipe(task=LanguageModelling(window=10, jitter=0.25))
    with pytest.raises(Killed):
        sparsemble.learn(regularised, corpus, how, folder=tmp_path, callback=KillAt(*at))
    resumed = sparsemble.learn(regularised, corpus, how, folder=tmp_path)
    for new, old in zip(resumed.ensemble, learned_with_everything.ensemble, strict=True):
        assert new.network.training_settings == regularised().training_settings
        for name, parameter in old.network.named_parameters():
            assert torch.equal(new.network.get_parameter(name), parameter)


def test_a_run_belongs_to_the_settings_it_was_begun_with(corpus, tmp_path):
    sparsemble.learn(fresh, corpus, recipe(prune=None, retrain=None), folder=tmp_path)
    with pytest.raises(InputError, match="belongs to another run: its network"):
        sparsemble.learn(regularised, corpus, recipe(prune=None, retrain=None), folder=tmp_path)


SMALLER = {
    "data.name": "grammar",
    "data.portion": 0.05,
    "network.hidden": [16, 16],
    "task.window": 10,
    "chain.epochs": 6,
    "chain.burn_in": 2,
    "chain.interval": 2,
    "chain.autocast": False,
    "chain.augment.unknown": 0,  # the grammar has no <unk>
}
"""Changes to the recipe `ptb-beyond` that make it a run of moments."""


def test_the_recipe_with_everything_runs_and_keeps_its_budget():
    recipe = sparsemble.load_recipe("ptb-beyond", SMALLER)
    corpus = recipe.data.load().train
    network = recipe.network.build(0, len(corpus.vocabulary))
    learned = sparsemble.learn(network, corpus, recipe)
    cost = learned.ensemble.cost
    assert cost.parameters <= cost.dense_parameters
    assert cost.flops <= cost.dense_flops
    for member in learned.ensemble:
        assert member.network.training_settings == network.training_settings
    assert learned.ensemble.evaluate(corpus.part("validation"))["perplexity"] < 234  # guessing


def test_autocast_trains_in_short_floats_and_keeps_long_weights(corpus, learned):
    try:
        fit(fresh, corpus, recipe(autocast=True))
    except InputError as error:
        pytest.skip(str(error))
    short = sparsemble.learn(fresh, corpus, recipe(autocast=True))
    assert all(math.isfinite(record.loss) for record in short.history.epochs)
    assert {p.dtype for p in short.ensemble.parameters()} == {torch.float32}
    score, wanted = (
        run.ensemble.evaluate(corpus.validation)["perplexity"] for run in (short, learned)
    )
    assert score == pytest.approx(wanted, rel=0.1)
    assert short.history.epochs[0].loss != learned.history.epochs[0].loss


@pytest.mark.parametrize(
    ("network", "changes", "message"),
    [
        (LanguageModel(99, 4, [4]), {}, "the text has 234 words, the network 99"),
        (nn.Linear(8, 234), {}, "a text needs a network that takes tokens and a state"),
        (fresh, {"batch_sizes": (1001, 10)}, "batch size of 1001 is too large"),
        (fresh, {"batch_sizes": (10, 1001)}, "batch size of 1001 is too large"),
    ],
)
def test_what_does_not_fit_a_text_is_refused_before_anything_is_written(
    corpus, tmp_path, network, changes, message
):
    with pytest.raises(InputError, match=message):
        sparsemble.learn(network, corpus, recipe(**changes), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_text_knows_how_many_windows_it_has(corpus):
    with pytest.raises(InputError, match="num_data is only for data loaders"):
        sparsemble.learn(fresh, corpus, recipe(), num_data=70)


def test_a_language_model_does_not_learn_from_arrays():
    with pytest.raises(InputError, match="a language model learns from a Corpus"):
        sparsemble.learn(fresh, (torch.zeros(9, 8), torch.zeros(9).long()), recipe())
