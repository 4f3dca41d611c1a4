"""Language models: the network, its loss and state, the chain."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from scenarios import WORDS, assert_close_in_law, model, text
from sparsemble.data import TextBatches
from sparsemble.layouts import layout_of
from sparsemble.members import compact
from sparsemble.nets import LanguageModel
from sparsemble.nets.dropout import Dropout
from sparsemble.priors import GroupSparse, NoPrior
from sparsemble.samplers import Constant, SGLDSettings
from sparsemble.stages import Callback, ChainSettings, RetrainSettings, draw_samples, prune, retrain
from sparsemble.structure import GroupTerms
from sparsemble.tasks import LanguageModelling
from sparsemble.tasks.cross_entropy import summed_cross_entropy

TASK = LanguageModelling(words=WORDS)

# --- the network -----------------------------------------------------------------------------


def test_dropout_is_never_on_the_recurrent_path_but_before_the_decoder():
    # Layers that read nothing but themselves: their state is free of whatever is dropped.
    network = model(dropout=0.5)
    with torch.no_grad():
        for layer in network.lstms:
            layer.weight_ih_l0.zero_()
            layer.bias_ih_l0.normal_()
    tokens = text(60).view(20, 3)
    dropped, state = network.train()(tokens)
    whole, quiet = network.eval()(tokens)
    for pair, expected in zip(state, quiet, strict=True):
        assert torch.equal(pair[0], expected[0])
        assert torch.equal(pair[1], expected[1])
    assert not torch.allclose(dropped, whole)


@pytest.mark.parametrize("number", [0, 1])
def test_dropout_stands_before_every_layer(number):
    network = model(dropout=0.5)
    with torch.no_grad():
        network.lstms[0].bias_ih_l0.normal_()
        if number == 1:
            network.lstms[0].weight_ih_l0.zero_()  # so that only what layer 1 emits is dropped
    tokens = text(60).view(20, 3)
    assert not torch.allclose(
        network.train()(tokens)[1][number][0], network.eval()(tokens)[1][number][0]
    )


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.99999])
def test_dropout_zeroes_its_share_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    values = torch.ones(1_000_003, requires_grad=True)
    dropped = Dropout(rate)(values)
    share = (round((1 - rate) * 65536) or 1) / 65536
    assert dropped.unique().tolist() == pytest.approx([0, 1 / share])
    kurtosis = 1 / (share * (1 - share)) - 6
    assert_close_in_law(dropped, mean=1.0, variance=1 / share - 1, excess_kurtosis=kurtosis)
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped)


def test_dropout_follows_the_seed_and_rests_in_evaluation():
    values = torch.randn(6, 5, 7)
    draws = [Dropout(0.4)(values) for seed in (1, 1, 2) if torch.manual_seed(seed)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(Dropout(0.4).eval()(values), values)
    assert torch.equal(Dropout(0.0)(values), values)


@pytest.mark.parametrize("shared", [False, True])
def test_the_state_carries_a_text_over_segments(shared):
    network = model(shared=shared)
    tokens = text(36).view(12, 3)
    whole, last = network(tokens)
    assert whole.shape == (12, 3, 7)
    first, state = network(tokens[:5])
    second, after = network(tokens[5:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(after, last, rtol=1e-12, atol=1e-12)


def assert_fresh(parameters: dict[str, Tensor], init_range: float) -> None:
    weights = torch.cat([p.detach().flatten() for p in parameters.values() if p.ndim == 2])
    assert float(weights.abs().max()) <= init_range
    # Uniform on ±s: variance s²/3, excess kurtosis −6/5.
    assert_close_in_law(weights, mean=0.0, variance=init_range**2 / 3, excess_kurtosis=-1.2)
    biases = torch.cat([p.detach() for p in parameters.values() if p.ndim == 1])
    assert float(biases.abs().max()) < 1e-20


@pytest.mark.parametrize("shared", [False, True])
def test_weights_start_uniformly_within_the_range_and_biases_at_zero(shared):
    network = LanguageModel(50, 20, [30, 20], shared=shared, init_range=0.04)
    assert_fresh(dict(network.named_parameters()), init_range=0.04)


def test_every_chain_starts_within_the_range():
    network = LanguageModel(50, 20, [30, 20], init_range=0.04)
    batches = TextBatches(torch.randint(50, (40,)), 2, window=19)
    still = settings(schedule=Constant(lr=1e-30), chains=2)
    task = LanguageModelling(words=tuple(map(str, range(50))))
    first, second = draw_samples(network, layout_of(network), task, batches, NoPrior(), still)
    assert_fresh(first.parameters, init_range=0.04)
    assert_fresh(second.parameters, init_range=0.04)
    assert not torch.equal(
        first.parameters["embedding.weight"], second.parameters["embedding.weight"]
    )


# --- loss and state --------------------------------------------------------------------------


def by_hand(network: LanguageModel, inputs: Tensor, targets: Tensor, state=None) -> Tensor:
    """Cross-entropy summed over the steps and averaged over the streams, one by one."""
    logs = network(inputs, state)[0].log_softmax(-1)
    steps, streams = inputs.shape
    return sum(
        sum(-logs[step, stream, targets[step, stream]] for stream in range(streams)) / streams
        for step in range(steps)
    )


def test_the_loss_is_summed_over_steps_and_averaged_over_streams():
    network = model()
    inputs, targets = text(12).view(4, 3), text(12).view(4, 3)
    loss = TASK.loss(TASK.forward(network)(inputs), targets)
    torch.testing.assert_close(loss, by_hand(network, inputs, targets), rtol=1e-12, atol=1e-12)


def test_a_window_starts_from_the_state_the_last_one_left_without_its_gradient():
    network = model()
    forward = TASK.forward(network)
    inputs, targets = text(24).view(8, 3), text(24).view(8, 3)
    forward(inputs[:4])
    loss = TASK.loss(forward(inputs[4:]), targets[4:])
    with torch.no_grad():
        _, state = network(inputs[:4])
    expected = by_hand(network, inputs[4:], targets[4:], state)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    parameters = list(network.parameters())
    truncated = torch.autograd.grad(expected, parameters)
    torch.testing.assert_close(torch.autograd.grad(loss, parameters), truncated)


def test_a_new_epoch_starts_from_the_zero_state():
    forward = TASK.forward(model())
    inputs, targets = text(12).view(4, 3), text(12).view(4, 3)
    first, second = (TASK.loss(forward(inputs), targets) for _ in range(2))
    forward.reset()
    assert TASK.loss(forward(inputs), targets).item() == first.item() != second.item()


def test_what_is_carried_can_be_handed_to_another():
    network = model()
    first, second = TASK.forward(network), TASK.forward(network)
    inputs = text(12).view(4, 3)
    assert first.state() == {}
    first(inputs)
    second.restore({name: tensor.clone() for name, tensor in first.state().items()})
    assert len(first.state()) == 2 * 2  # hidden and cell state of two layers
    expected = first(inputs)
    assert torch.equal(second(inputs), expected)
    second.restore({})
    assert not torch.equal(second(inputs), expected)


# --- the chain -------------------------------------------------------------------------------


def settings(**changes) -> ChainSettings:
    fields = {
        "sampler": SGLDSettings(temperature=0),
        "schedule": Constant(lr=0.5),
        "epochs": 1,
        "burn_in": 0,
        "interval": 1,
        "collection": "thinned",
    }
    return ChainSettings(**(fields | changes))


def sampled(network: LanguageModel, batches: TextBatches, chosen, prior=None) -> dict[str, Tensor]:
    layout = layout_of(network)
    return draw_samples(network, layout, TASK, batches, prior or NoPrior(), chosen)[-1].parameters


def descend(network: LanguageModel, batches: TextBatches, *, epochs, clip, masks=None) -> None:
    """The plain training loop, at a rate of 0.5; masks keep gradients at zero."""
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    for epoch in range(epochs):
        state = None
        for inputs, targets in batches.epoch(epoch):
            optimiser.zero_grad()
            logits, state = network(inputs, state)
            state = tuple((h.detach(), c.detach()) for h, c in state)
            (summed_cross_entropy(logits, targets) / inputs.shape[1]).backward()
            for name, mask in (masks or {}).items():
                network.get_parameter(name).grad.mul_(mask)
            nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimiser.step()


@pytest.mark.parametrize("shared", [False, True])
def test_at_temperature_zero_a_chain_is_the_plain_training_loop(shared):
    # A limit that is never reached multiplies by one: equal bit for bit.
    network, batches = model(shared=shared), TextBatches(text(100), 4, window=7)
    sample = sampled(network, batches, settings(epochs=3, clip=1e6, interval=3))
    descend(network, batches, epochs=3, clip=1e6)
    for name, parameter in network.named_parameters():
        assert torch.equal(sample[name], parameter)


def one_batch() -> TextBatches:
    """A text that is read in one step, as four windows."""
    return TextBatches(text(44), batch_size=4, window=10)


def test_clipping_comes_before_the_prior():
    network, batches = model(), one_batch()
    sample = sampled(network, batches, settings(clip=0.25), GroupSparse(penalty=0.1))
    by_hand(network, *next(batches.epoch(0))).backward()
    parameters = dict(network.named_parameters())
    norm = math.sqrt(sum(float(p.grad.square().sum()) for p in parameters.values()))
    assert norm > 0.25
    clipped = {name: p.grad * 0.25 / norm for name, p in parameters.items()}
    network.zero_grad()
    (0.1 * GroupTerms(layout_of(network), parameters).penalty()).backward()
    for name, p in parameters.items():
        prior = 0.0 if p.grad is None else p.grad
        expected = p.detach() - 0.5 * (clipped[name] + prior)
        torch.testing.assert_close(sample[name], expected, rtol=1e-12, atol=1e-12)


def test_retraining_clips_by_the_norm_of_the_weights_that_are_left():
    # Against the loop on the whole network whose pruned weights have no gradient.
    whole, batches = model(9, 8), TextBatches(text(100), 4, window=7)
    layout = layout_of(whole)
    masks = prune(dict(whole.named_parameters()), layout, sparsity=0.6)
    member = compact(copy.deepcopy(whole), layout, masks)
    settings = RetrainSettings(epochs=3, schedule=Constant(lr=0.5), clip=0.25)
    retrain([member], TASK, batches, NoPrior(), settings)
    own = [p.grad.square().sum() for p in member.parameters()]
    assert math.sqrt(sum(own)) == pytest.approx(0.25)  # the last step's, and it was clipped
    with torch.no_grad():
        for name, mask in masks.items():
            whole.get_parameter(name).mul_(mask)
    descend(whole, batches, epochs=3, clip=0.25, masks=masks)
    tokens = text(60).view(20, 3)
    # PyTorch adds a millionth to the norm it divides by.
    torch.testing.assert_close(member(tokens)[0], whole.eval()(tokens)[0], rtol=1e-5, atol=1e-5)


def test_clipping_comes_before_the_noise():
    network, batches = model(30, 4), one_batch()
    hot = settings(clip=1e-3, sampler=SGLDSettings(temperature=3.0))
    cold, warm = sampled(network, batches, settings(clip=1e-3)), sampled(network, batches, hot)
    noise = torch.cat([(warm[name] - cold[name]).flatten() for name in cold])
    assert_close_in_law(noise, mean=0.0, variance=2 * 0.5 * 3.0 / 4)  # 2ηT/N, N windows


def test_the_traces_perplexity_is_that_of_the_training_text():
    # 40 targets in windows of 30 and 10: every one counts the same.
    network, tokens = model(), text(41)
    records = []

    class Log(Callback):
        def epoch_ended(self, record):
            records.append(record)

    batches = TextBatches(tokens, 1, window=30)
    still = settings(schedule=Constant(lr=1e-30))
    draw_samples(network, layout_of(network), TASK, batches, NoPrior(), still, callback=Log())
    total = by_hand(network, tokens[:-1].view(-1, 1), tokens[1:].view(-1, 1))
    assert records[0].metric == "perplexity"
    assert records[0].figure == pytest.approx(math.exp(total.item() / 40), rel=1e-9)
