"""Networks by their settings: what a recipe says is what is built."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsemble.data import digits, grammar
from sparsemble.errors import InputError
from sparsemble.nets import (
    RecurrentClassifier,
    ResNet,
    SmallCNN,
    TransformerClassifier,
    TransformerLanguageModel,
)
from sparsemble.recipes import load_recipe
from sparsemble.recipes.networks import (
    CNNSettings,
    NetworkSettings,
    RecurrentSettings,
    ResNetSettings,
    TransformerLanguageSettings,
    TransformerSettings,
)
from sparsemble.tasks import Classification, LanguageModelling


def section(recipe: str = "digits", **fields) -> NetworkSettings:
    """The network of a recipe whose section is another."""
    return load_recipe(recipe, {f"network.{name}": value for name, value in fields.items()}).network


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "cnn", "channels": [4, 5]}, lambda: SmallCNN((1, 8, 8), [4, 5], 10)),
        (
            {"kind": "cnn", "shape": [4, 4, 4], "channels": [4], "dropout": 0.5},
            lambda: SmallCNN((4, 4, 4), [4], 10, dropout=0.5),
        ),
        (
            {"kind": "resnet", "channels": [4, 5], "blocks": 3},
            lambda: ResNet((1, 8, 8), [4, 5], 10, blocks=3),
        ),
        (
            {"kind": "transformer", "features": 8, "width": 12, "heads": 3, "inner": 7},
            lambda: TransformerClassifier(8, 12, 10, features=8, heads=3, inner=7),
        ),
        (
            {"kind": "transformer", "words": 17, "width": 8, "layers": 1, "padding": 0},
            lambda: TransformerClassifier(64, 8, 10, words=17, layers=1, padding=0),
        ),
        (
            {"kind": "recurrent", "features": 8, "hidden": [6, 5], "cell": "gru"},
            lambda: RecurrentClassifier([6, 5], 10, features=8, cell="gru"),
        ),
        (
            {"kind": "recurrent", "words": 17, "hidden": [6], "embedding": 4, "pooling": "last"},
            lambda: RecurrentClassifier([6], 10, words=17, embedding=4, pooling="last"),
        ),
        (
            {"kind": "transformer-language", "width": 16, "context": 5, "shared": True},
            lambda: TransformerLanguageModel(10, 16, context=5, shared=True),
        ),
    ],
)
def test_a_section_makes_the_network_that_its_arguments_would(fields, expected):
    built, made = section(**fields).build(64, 10), expected()
    assert repr(built) == repr(made)
    made.load_state_dict(built.state_dict())
    inputs = torch.randint(17 if "words" in fields else 10, (64, 64))
    if not isinstance(built, TransformerLanguageModel):
        inputs = inputs.float()
    torch.testing.assert_close(built.eval()(inputs), made.eval()(inputs))


def test_the_digits_network_reads_rows_of_pixels_as_pictures():
    train, _ = digits()
    task = Classification().training(train).task
    recipe = load_recipe("digits-cnn")
    network = recipe.network.build(*task.sizes).eval()
    pictures = train.scaled()[:5]
    assert network(pictures).shape == (5, 10)
    assert torch.equal(network(pictures), network(pictures.view(5, 1, 8, 8)))


def test_mnists_network_reads_its_pictures():
    network = load_recipe("mnist-cnn").network.build(784, 10)
    assert network(torch.rand(4, 784)).shape == (4, 10)
    assert network.head.in_features == 32 * 7 * 7


def test_the_grammars_transformer_reads_its_words_as_the_task_calls_it():
    corpus = grammar()
    recipe = load_recipe("grammar-transformer")
    assert isinstance(recipe.task, LanguageModelling)
    assert recipe.network.context == recipe.task.window
    training = recipe.task.training(corpus)
    network = recipe.network.build(*training.task.sizes).eval()
    inputs, targets = next(training.batches(4).epoch(0))
    training.task.check(network, inputs)
    loss = training.task.loss(training.task.forward(network)(inputs), targets)
    # Fresh weights know next to nothing: about ln(words) for each of 20 steps.
    assert loss.item() == pytest.approx(training.task.guess(training.batches(4)), rel=0.2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "cnn", "channels": []}, r"network\.channels"),
        ({"kind": "cnn", "channels": [4], "shape": [8, 8]}, r"network\.shape"),
        ({"kind": "resnet", "channels": [4, 0]}, r"network\.channels"),
        ({"kind": "transformer", "width": 8}, "give either words, .* or features"),
        ({"kind": "transformer", "width": 8, "words": 3, "features": 3}, "give either words"),
        ({"kind": "recurrent", "words": 3, "hidden": [4], "cell": "rnn"}, r"network\.cell = 'rnn'"),
        ({"kind": "transformer-language", "width": 8}, r"missing setting 'network\.context'"),
    ],
)
def test_sections_that_make_no_network_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        section(**fields)


@pytest.mark.parametrize(
    ("settings", "inputs", "message"),
    [
        (CNNSettings(channels=(4,)), 63, r"no square picture: give network\.shape"),
        (CNNSettings(channels=(4,), shape=(3, 4, 5)), 64, r"no picture of \(3, 4, 5\)"),
        (ResNetSettings(channels=(4,)), 0, r"shape = \(1, 0, 0\)"),
        (TransformerSettings(width=8, features=7), 64, r"network\.features = 7: give a divisor"),
        (RecurrentSettings(hidden=(8,), features=7), 64, r"network\.features = 7: give a divisor"),
    ],
)
def test_data_that_do_not_fit_are_refused_with_the_setting_to_change(settings, inputs, message):
    with pytest.raises(InputError, match=message):
        settings.build(inputs, 10)


@pytest.mark.parametrize(
    "settings",
    [
        CNNSettings(channels=(16, 32)),
        ResNetSettings(channels=(16, 32)),
        TransformerSettings(width=32, features=8, inner=50),
        RecurrentSettings(hidden=(16, 12), words=20, embedding=9, bidirectional=True),
        TransformerLanguageSettings(width=64, context=5),
    ],
)
def test_narrow_networks_of_every_kind_grow_with_their_share(settings):
    sizes = [count(settings.narrowed(share).build(64, 10)) for share in (1e-6, 0.25, 0.5, 1.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1] < sizes[2] < sizes[3] == count(settings.build(64, 10))


def test_another_kind_of_network_for_pictures_keeps_what_both_kinds_have():
    recipe = load_recipe("digits-cnn", {"network.kind": "resnet", "network.blocks": 1})
    assert recipe.network == ResNetSettings(shape=(1, 8, 8), channels=(16, 32), blocks=1)
