"""Recurrent classifiers against PyTorch's layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sparsemble.nets import RecurrentClassifier


def reference(network: RecurrentClassifier, kind: type[nn.RNNBase], directions: int) -> nn.RNNBase:
    """One module of PyTorch's with all layers and the same weights."""
    whole = kind(3, 5, 2, batch_first=True, bidirectional=directions == 2).double()
    state = {
        name.replace("_l0", f"_l{number}"): weights
        for number, layer in enumerate(network.layers)
        for name, weights in layer.state_dict().items()
    }
    whole.load_state_dict(state)
    return whole


@pytest.mark.parametrize(("cell", "kind"), [("lstm", nn.LSTM), ("gru", nn.GRU)])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_it_reads_as_the_layers_of_pytorch_do(cell, kind, directions, pooling):
    network = RecurrentClassifier(
        [5, 5], 4, features=3, cell=cell, bidirectional=directions == 2, pooling=pooling
    ).double()
    vectors = torch.randn(6, 7, 3, dtype=torch.float64)
    outputs, _ = reference(network, kind, directions)(vectors)
    if pooling == "mean":
        read = outputs.sum(1) / 7
    else:  # forwards at the end, backwards at the beginning
        read = torch.cat([outputs[:, -1, :5], outputs[:, 0, 5:]], dim=1)
    expected = read @ network.head.weight.t() + network.head.bias
    torch.testing.assert_close(network(vectors), expected, rtol=1e-10, atol=1e-10)


def test_layers_may_differ_in_size():
    network = RecurrentClassifier([6, 4, 2], 3, words=9, embedding=5, bidirectional=True)
    sizes = [(layer.input_size, layer.hidden_size) for layer in network.layers]
    assert sizes == [(5, 6), (12, 4), (8, 2)]
    assert network.head.in_features == 4


def test_an_embedding_is_as_wide_as_the_first_layer_unless_given():
    assert RecurrentClassifier([6, 4], 3, words=9).embedding.weight.shape == (9, 6)


def test_words_may_come_as_floats_and_vectors_flat():
    network, tokens = RecurrentClassifier([4], 3, words=9), torch.randint(9, (5, 6))
    assert torch.equal(network(tokens.float()), network(tokens))
    network, vectors = RecurrentClassifier([4], 3, features=2), torch.randn(5, 6, 2)
    assert torch.equal(network(vectors.flatten(1)), network(vectors))


def differs(network: RecurrentClassifier, inputs: Tensor) -> bool:
    return not torch.equal(network(inputs), network(inputs))


def test_dropout_acts_in_training_only():
    network, tokens = RecurrentClassifier([8], 3, words=9, dropout=0.5), torch.randint(9, (5, 6))
    assert differs(network, tokens)
    assert not differs(network.eval(), tokens)
