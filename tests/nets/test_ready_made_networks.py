"""What all ready-made networks have in common: each can be traced, copied and started anew."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from sparsemble.errors import InputError
from sparsemble.nets import (
    RecurrentClassifier,
    ResNet,
    SmallCNN,
    TransformerClassifier,
    TransformerLanguageModel,
)
from sparsemble.stages.starting import _initialise


def pictures() -> Tensor:
    return torch.randn(3, 2, 4, 4, dtype=torch.float64)


def words() -> Tensor:
    return torch.randint(1, 9, (3, 5))


def padded() -> Tensor:
    return torch.tensor([[3, 4, 5, 6, 7], [3, 0, 0, 0, 0], [0, 0, 0, 0, 0]])


def vectors() -> Tensor:
    return torch.randn(3, 5, 2, dtype=torch.float64)


NETWORKS = {
    "cnn": (lambda: SmallCNN((2, 4, 4), [3, 4], 6, dropout=0.3), pictures),
    "resnet": (lambda: ResNet((2, 4, 4), [3, 4], 6), pictures),
    "transformer-words": (lambda: TransformerClassifier(7, 8, 6, words=9, dropout=0.3), words),
    "transformer-padded": (lambda: TransformerClassifier(7, 8, 6, words=9, padding=0), padded),
    "transformer-vectors": (lambda: TransformerClassifier(7, 8, 6, features=2), vectors),
    "transformer-language": (
        lambda: TransformerLanguageModel(9, 8, context=3, heads=2, dropout=0.3),
        words,
    ),
    "transformer-shared": (
        lambda: TransformerLanguageModel(9, 8, context=3, heads=2, shared=True),
        words,
    ),
    "lstm": (lambda: RecurrentClassifier([4, 3], 6, words=9, dropout=0.3), words),
    "gru-both-ways": (
        lambda: RecurrentClassifier(
            [4, 3], 6, features=2, cell="gru", bidirectional=True, pooling="last"
        ),
        vectors,
    ),
}
every = pytest.mark.parametrize("name", NETWORKS)


def made(name: str) -> tuple[nn.Module, Tensor]:
    make, data = NETWORKS[name]
    return make().double(), data()


@pytest.mark.slow
@every
@pytest.mark.parametrize("training", [False, True])
def test_it_can_be_traced_with_one_input_and_output_and_the_trace_computes_the_same(name, training):
    network, inputs = made(name)
    network.train(training)
    exported = torch.export.export(network, (inputs,), strict=False)
    signature = exported.graph_signature
    assert len(signature.user_inputs) == len(signature.user_outputs) == 1
    torch.manual_seed(1)
    expected = copy.deepcopy(network)(inputs)
    torch.manual_seed(1)
    torch.testing.assert_close(exported.module()(inputs), expected, rtol=1e-12, atol=1e-12)


@every
def test_it_computes_in_double_precision_and_every_parameter_learns(name):
    network, inputs = made(name)
    found = network(inputs)
    logits = found[0] if isinstance(found, tuple) else found
    assert logits.dtype is torch.float64
    (logits * torch.randn_like(logits)).sum().backward()
    for parameter, value in network.named_parameters():
        assert value.grad is not None, parameter
        # A softmax does not see what a key's bias adds to all scores alike.
        unseen = parameter.endswith("keys.bias") and isinstance(network, TransformerClassifier)
        assert bool(value.grad.abs().max() > 1e-12) or unseen, parameter


@every
def test_an_example_is_answered_alone_as_among_others(name):
    network, inputs = made(name)
    network.eval()
    if isinstance(network, TransformerLanguageModel):
        alone = torch.cat([network(stream)[0] for stream in inputs.split(1, dim=1)], dim=1)
        together = network(inputs)[0]
    else:
        alone, together = torch.cat([network(x) for x in inputs.split(1)]), network(inputs)
    torch.testing.assert_close(alone, together, rtol=1e-10, atol=1e-10)


@every
def test_another_chain_starts_from_weights_of_its_own_drawn_from_the_same_law(name):
    network, _ = made(name)
    fresh = copy.deepcopy(network)
    _initialise(fresh)
    for (parameter, old), new in zip(network.named_parameters(), fresh.parameters(), strict=True):
        if old.ndim > 1:
            assert not torch.equal(old, new), parameter
            assert 0.4 < float((new.std() / old.std()).detach()) < 2.5, parameter


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SmallCNN((8, 8), [4], 2), r"shape = \(8, 8\): must be \(channels, height"),
        (lambda: SmallCNN((1, 8, 8), [], 2), r"channels = \[\]: must be one or more positive"),
        (lambda: SmallCNN((1, 8, 8), [4, 0], 2), r"channels = \[4, 0\]"),
        (lambda: SmallCNN((1, 8, 8), [4], 0), r"outputs = 0: must be a positive integer"),
        (lambda: SmallCNN((1, 8, 8), [4], 2, dropout=1), r"dropout = 1: must be at least 0"),
        (lambda: SmallCNN((1, 9, 5), [4] * 3, 2), r"can be done 2 times: give fewer"),
        (lambda: ResNet((1, 8, 0), [4], 2), r"shape = \(1, 8, 0\)"),
        (lambda: ResNet((1, 8, 8), [4], 2, blocks=0), r"blocks = 0"),
        (lambda: TransformerClassifier(5, 8, 2), r"give words, .* or features"),
        (lambda: TransformerClassifier(5, 8, 2, words=3, features=3), r"give words, .*features"),
        (lambda: TransformerClassifier(5, 8, 2, features=0), r"features = 0"),
        (lambda: TransformerClassifier(0, 8, 2, words=3), r"length = 0"),
        (lambda: TransformerClassifier(5, 8, 2, words=3, heads=3), r"give a multiple of it"),
        (lambda: TransformerClassifier(5, 8, 2, words=3, inner=0), r"inner = 0"),
        (lambda: TransformerClassifier(5, 8, 2, words=3, padding=3), r"padding = 3.*below 3"),
        (lambda: TransformerClassifier(5, 8, 2, features=3, padding=0), r"padding = 0"),
        (lambda: TransformerLanguageModel(9, 12, context=5), r"give a multiple of 8"),
        (lambda: TransformerLanguageModel(9, 8, context=0), r"context = 0"),
        (lambda: RecurrentClassifier([], 2, words=3), r"hidden = \[\]"),
        (lambda: RecurrentClassifier([4], 2, words=3, embedding=0), r"embedding = 0"),
        (lambda: RecurrentClassifier([4], 2, words=3, cell="rnn"), r"not one of lstm, gru"),
        (lambda: RecurrentClassifier([4], 2, words=3, pooling="max"), r"not one of mean, last"),
    ],
)
def test_arguments_that_make_no_network_are_refused_by_name(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "shape", "message"),
    [
        (lambda: SmallCNN((1, 8, 8), [4], 2), (3, 63), "flat ones of 64 numbers, not"),
        (lambda: ResNet((1, 8, 8), [4], 2), (3, 3, 8, 8), r"not inputs of \(3, 8, 8\)"),
        (lambda: TransformerClassifier(5, 8, 2, words=3), (3, 6), "longer than length = 5"),
        (lambda: TransformerClassifier(5, 8, 2, words=3), (3, 5, 1), "give features instead"),
        (lambda: TransformerClassifier(5, 8, 2, features=3), (3, 7), "vectors of 3 numbers"),
        (lambda: RecurrentClassifier([4], 2, features=3), (3, 5, 4), "vectors of 3 numbers"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_what_would(make, shape, message):
    with pytest.raises(InputError, match=message):
        make()(torch.zeros(shape))
