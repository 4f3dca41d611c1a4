"""What cannot work is found out with one small batch, before the chain begins."""

import pytest
import torch
from torch import nn

import sparsemble
from small_runs import network, recipe
from sparsemble import devices
from sparsemble.augmentations import (
    FunctionAugmentation,
    InputDropout,
    InputNoise,
    Warp,
    WordDropout,
)
from sparsemble.errors import InputError
from sparsemble.learning.rehearsal import rehearse_augmentation
from sparsemble.nets import LanguageModel
from sparsemble.tasks import Classification, LanguageModelling

pytestmark = pytest.mark.slow


def in_short_floats(*stages, autocast=True):
    """The recipe with autocast in these stages."""
    plain, how = recipe(), {"autocast": autocast}
    changed = {name: getattr(plain, name).model_copy(update=how) for name in stages}
    return plain.model_copy(update=changed)


class LongFloatsOnly(nn.Sequential):
    """Like a layer for which a processor has no short floats."""

    def forward(self, inputs):
        if torch.is_autocast_enabled("cpu"):
            raise RuntimeError("could not create a primitive. Run with ONEDNN_VERBOSE=all")
        return super().forward(inputs)


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        (("chain",), "chain.autocast = true"),
        (("retrain",), "retrain.autocast = true"),
        (("chain", "retrain"), "chain.autocast and retrain.autocast = true"),
    ],
)
def test_autocast_that_a_machine_cannot_do_is_refused_before_the_chain(
    arrays, tmp_path, stages, said
):
    stubborn, layout = LongFloatsOnly(*network()), sparsemble.layout_of(network())
    with pytest.raises(InputError) as told:
        sparsemble.learn(
            stubborn, arrays, in_short_floats(*stages), layout=layout, folder=tmp_path / "run"
        )
    assert str(told.value) == (
        f"{said}: cpu cannot compute this network in bfloat16 (could not create a primitive); "
        "leave it out"
    )
    assert not (tmp_path / "run").exists()
    sparsemble.learn(stubborn, arrays, recipe(retrain=None), layout=layout)


def test_autocast_of_language_models_works_or_is_refused_at_once():
    corpus = sparsemble.grammar().beginning(0.01)
    chosen = sparsemble.load_recipe(
        "grammar", {"chain.epochs": 1, "chain.burn_in": 0, "chain.interval": 1, "retrain": False}
    )
    chosen = chosen.model_copy(update={"chain": chosen.chain.model_copy(update={"autocast": True})})
    refusal = None
    try:
        learned = sparsemble.learn(LanguageModel(234, 6, [6]), corpus, chosen)
    except InputError as error:
        refusal = str(error)
    if refusal is None:
        assert {p.dtype for p in learned.ensemble.parameters()} == {torch.float32}
    else:
        assert refusal.startswith("chain.autocast = true: cpu cannot compute")


def test_feed_forward_networks_learn_in_short_floats_and_keep_long_weights(arrays):
    short = sparsemble.learn(network(), arrays, in_short_floats("chain", "retrain"))
    long = sparsemble.learn(network(), arrays, recipe())
    assert {p.dtype for p in short.ensemble.parameters()} == {torch.float32}
    assert short.history.epochs[0].loss != long.history.epochs[0].loss
    assert short.ensemble.evaluate(arrays)["error"] < 0.25


@pytest.mark.parametrize("has", [True, False])
def test_auto_means_short_floats_only_where_the_device_multiplies_in_them(arrays, monkeypatch, has):
    monkeypatch.setattr(devices, "has_bfloat16", lambda kind: has)
    auto = sparsemble.learn(network(), arrays, in_short_floats("chain", "retrain", autocast="auto"))
    asked = in_short_floats("chain", "retrain", autocast=has)
    same = sparsemble.learn(network(), arrays, asked)
    assert [e.loss for e in auto.history.epochs] == [e.loss for e in same.history.epochs]


def test_the_rehearsal_leaves_network_and_random_numbers_alone(arrays):
    own = network()
    before = torch.get_rng_state()
    sparsemble.learn(own, arrays, in_short_floats("chain", "retrain"))
    assert torch.equal(torch.get_rng_state(), before)
    assert own.training
    assert all(parameter.grad is None for parameter in own.parameters())


@pytest.mark.parametrize("device", ["meta", "nonsense", "cuda:99", "cpu:-5", 3.5])
def test_a_device_that_cannot_be_used_is_refused(arrays, tmp_path, device):
    with pytest.raises(InputError, match=f"device = '{device}' cannot be used: "):
        sparsemble.learn(network(), arrays, recipe(), device=device, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="cannot be used"):
        sparsemble.Ensemble.load(tmp_path / "run", device=device)


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_the_processor_named_is_the_processor_by_default(arrays, device):
    named = sparsemble.learn(network(), arrays, recipe(), device=device)
    default = sparsemble.learn(network(), arrays, recipe())
    for one, other in zip(named.ensemble, default.ensemble, strict=True):
        assert all(map(torch.equal, one.parameters(), other.parameters()))


# --- augmentations ---------------------------------------------------------------------------


def seen_by(given):
    """An augmentation that notes down what it is given."""

    def note(inputs):
        given.append(inputs.clone())
        return inputs

    return FunctionAugmentation(function=note)


def test_an_augmentation_is_rehearsed_on_scaled_examples():
    train, _ = sparsemble.digits()
    given = []
    rehearse_augmentation(Classification().training(train), seen_by(given))
    assert given[0].shape == (2, 64)
    assert given[0].max() <= 1 < train.inputs.max()


def test_an_augmentation_is_rehearsed_on_a_loaders_batches():
    pairs = list(zip(torch.rand(9, 4, 4), [0, 1, 2] * 3, strict=True))
    loader = torch.utils.data.DataLoader(pairs, batch_size=3)
    given = []
    rehearse_augmentation(Classification().training(loader, outputs=3), seen_by(given))
    assert given[0].shape == (2, 4, 4)


@pytest.mark.parametrize(
    ("augment", "said"),
    [
        (Warp(), "inputs of 8 numbers are no square image"),
        (WordDropout(), "WordDropout is for words of a text"),
        (FunctionAugmentation(function=torch.sqrt), "sqrt returns numbers that are not finite"),
    ],
)
def test_an_augmentation_that_does_not_fit_the_data_is_refused(arrays, augment, said):
    with pytest.raises(InputError, match=said):
        rehearse_augmentation(Classification().training(arrays), augment)


def test_an_augmentation_of_a_text_is_told_its_words_by_the_task():
    corpus = sparsemble.grammar().beginning(0.01)
    training = LanguageModelling().training(corpus)
    with pytest.raises(InputError, match="the text has no <unk>"):
        rehearse_augmentation(training, WordDropout())
    with pytest.raises(InputError, match="InputNoise is for scaled numbers"):
        rehearse_augmentation(training, InputNoise())
    words, state = corpus.train.clone(), torch.get_rng_state()
    assert rehearse_augmentation(training, WordDropout(share=0.9, unknown=0)) is None
    assert torch.equal(corpus.train, words)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_rehearsal_of_an_augmentation_uses_nobodys_random_numbers(arrays):
    state = torch.get_rng_state()
    assert rehearse_augmentation(Classification().training(arrays), InputDropout()) is None
    assert torch.equal(torch.get_rng_state(), state)
