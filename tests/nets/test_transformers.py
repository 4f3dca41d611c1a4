"""Transformers: blocks against PyTorch's own, padding, order, what a word may read."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sparsemble.nets import TransformerClassifier, TransformerLanguageModel
from sparsemble.nets.transformer_block import TransformerBlock, rotary_angles, rotated
from sparsemble.tasks import LanguageModelling

WORDS = tuple(map(str, range(9)))


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


# --- blocks ----------------------------------------------------------------------------------


def torchs_own(block: TransformerBlock, width: int, heads: int, inner: int) -> nn.Module:
    """PyTorch's layer with the same weights."""
    layer = nn.TransformerEncoderLayer(
        width, heads, inner, 0.0, "gelu", batch_first=True, norm_first=True
    ).double()
    attention = block.attention
    read = (attention.queries, attention.keys, attention.values)
    weights = {
        "self_attn.in_proj_weight": torch.cat([part.weight for part in read]),
        "self_attn.in_proj_bias": torch.cat([part.bias for part in read]),
    }
    parts = {
        "self_attn.out_proj": attention.output,
        "linear1": block.inner[0],
        "linear2": block.inner[2],
        "norm1": block.attention_norm,
        "norm2": block.inner_norm,
    }
    for name, part in parts.items():
        weights |= {f"{name}.weight": part.weight, f"{name}.bias": part.bias}
    layer.load_state_dict(weights)
    return layer


@pytest.mark.parametrize("masked", [False, True])
def test_a_block_computes_what_pytorchs_own_layer_does(masked):
    block = TransformerBlock(12, 3, 20).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    values = torch.randn(4, 6, 12, dtype=torch.float64)
    mask = torch.ones(6, 6, dtype=torch.bool).tril() if masked else None
    layer = torchs_own(block, 12, 3, 20)
    close(block(values, mask), layer(values, src_mask=None if mask is None else ~mask))


def test_products_of_turned_vectors_depend_on_their_distance_only():
    query, key = torch.randn(2, 6, dtype=torch.float64)
    angles = rotary_angles(10, 6, query)
    products = rotated(query.expand(10, 6), angles) @ rotated(key.expand(10, 6), angles).t()
    for distance in range(10):
        diagonal = products.diagonal(distance)
        close(diagonal, diagonal[:1].expand_as(diagonal))
    assert products[0].std() > 0.01
    close(products[0, 0], query @ key)


# --- the classifier --------------------------------------------------------------------------


def classifier(**how) -> TransformerClassifier:
    network = TransformerClassifier(8, 8, 3, heads=2, **how).double()
    nn.init.normal_(network.positions.weight)
    if isinstance(network.embedding, nn.Embedding):
        nn.init.normal_(network.embedding.weight)
    return network


def test_padding_changes_nothing_wherever_it_stands():
    network = classifier(words=9, padding=0)
    nn.init.zeros_(network.positions.weight)
    short = torch.tensor([[3, 7, 7, 2]])
    expected = classifier_without_padding(network)(short)
    close(network(short), expected)
    close(network(torch.tensor([[3, 7, 7, 2, 0, 0, 0]])), expected)
    close(network(torch.tensor([[0, 3, 0, 7, 7, 2, 0]])), expected)


def classifier_without_padding(network: TransformerClassifier) -> TransformerClassifier:
    other = classifier(words=9)
    other.load_state_dict(network.state_dict())
    return other


def test_a_sequence_of_padding_alone_has_an_answer_that_gradients_bear():
    network = classifier(words=9, padding=0)
    tokens = torch.tensor([[0, 0, 0], [1, 2, 0]])
    logits = network(tokens)
    close(logits[0], network.head.bias)
    logits.sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in network.parameters())


def test_order_matters_by_the_positions_alone():
    network = classifier(words=9)
    tokens = torch.tensor([[3, 7, 1, 2]])
    assert not torch.allclose(network(tokens), network(tokens.flip(1)))
    nn.init.zeros_(network.positions.weight)
    close(network(tokens), network(tokens.flip(1)))


def test_words_may_come_as_floats():
    network, tokens = classifier(words=9), torch.randint(9, (4, 6))
    assert torch.equal(network(tokens.double()), network(tokens))


def test_vectors_may_come_flat():
    network, vectors = classifier(features=3), torch.randn(4, 6, 3, dtype=torch.float64)
    assert torch.equal(network(vectors.flatten(1)), network(vectors))


# --- the language model ----------------------------------------------------------------------


def language_model(layers: int = 2, context: int = 4, **how) -> TransformerLanguageModel:
    network = TransformerLanguageModel(9, 8, context=context, layers=layers, heads=2, **how)
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    return network.double()


@pytest.mark.parametrize(("layers", "context"), [(1, 1), (1, 4), (2, 3), (3, 20)])
def test_a_word_reads_those_before_it_as_far_back_as_its_layers_reach(layers, context):
    network, reach = language_model(layers, context), layers * (context - 1)
    tokens = torch.randint(9, (12, 1))
    changed = tokens.clone()
    changed[3] = (changed[3] + 1) % 9
    differs = (network(tokens)[0] - network(changed)[0]).abs().amax((1, 2)) > 1e-12
    assert differs.tolist() == [3 <= place <= 3 + reach for place in range(12)]


def test_a_text_is_read_the_same_wherever_it_stands():
    network = language_model(layers=2, context=4)
    tokens = torch.randint(9, (20, 3))
    whole, later = network(tokens)[0], network(tokens[5:])[0]
    close(later[6:], whole[5 + 6 :])
    assert not torch.allclose(later[:6], whole[5 : 5 + 6])


def test_its_weights_are_shared_if_asked_and_stay_so_when_drawn_anew():
    network = language_model(shared=True)
    assert network.shared
    network.reset_parameters()
    assert network.decoder.weight is network.embedding.weight
    assert 0.01 < float(network.embedding.weight.detach().std()) < 0.03
    assert not language_model().shared


def test_the_task_of_language_modelling_takes_it_and_carries_nothing():
    network, task = language_model(), LanguageModelling(words=WORDS)
    inputs, targets = torch.randint(9, (2, 6, 3))
    task.check(network, inputs)
    forward = task.forward(network)
    logs = network(inputs)[0].log_softmax(-1)
    expected = -logs.gather(2, targets.unsqueeze(2)).sum() / 3
    close(task.loss(forward(inputs), targets), expected)
    assert forward.state() == {}
    close(forward(inputs), network(inputs)[0])
    forward.restore({})
    close(forward(inputs), network(inputs)[0])


def test_it_learns_to_repeat_the_word_before_the_last():
    network = TransformerLanguageModel(9, 16, context=8, layers=1, heads=2)
    task, optimiser = LanguageModelling(words=WORDS), torch.optim.Adam(network.parameters(), 1e-2)
    forward = task.forward(network)
    for _ in range(150):
        text = torch.randint(9, (2, 32)).repeat(5, 1)
        optimiser.zero_grad()
        task.loss(forward(text[:-1]), text[1:]).backward()
        optimiser.step()
    text = torch.randint(9, (2, 200)).repeat(15, 1)  # longer than any it has learned from
    predicted = network(text[:-1])[0].argmax(-1)
    assert float((predicted == text[1:])[1:].double().mean()) > 0.95


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_with_the_words_before_a_text_is_read_the_same_however_it_is_cut(steps):
    network = language_model(layers=2, context=4)  # two layers that look three words back
    forward = LanguageModelling(words=WORDS, context=6).forward(network)
    tokens = torch.randint(9, (40, 3))
    close(torch.cat([forward(part) for part in tokens.split(steps)]), network(tokens)[0])
    forward.reset()
    close(forward(tokens[:5]), network(tokens[:5])[0])


def test_the_words_before_can_be_handed_to_another():
    task, network = LanguageModelling(words=WORDS, context=6), language_model()
    first, second = task.forward(network), task.forward(network)
    assert first.state() == {}
    first(torch.randint(9, (8, 3)))
    second.restore(first.state())
    tokens = torch.randint(9, (4, 3))
    assert torch.equal(first(tokens), second(tokens))
    second.restore({})
    close(second(tokens), network(tokens)[0])
