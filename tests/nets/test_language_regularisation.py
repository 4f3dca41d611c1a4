"""What keeps a language model from learning its text by heart, against the plain computation."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from scenarios import STANDARD_ERRORS, WORDS, full_masks, model, text
from sparsemble.data import TextBatches
from sparsemble.errors import InputError
from sparsemble.layouts import layout_of
from sparsemble.members import Member, compact
from sparsemble.nets import LanguageModel
from sparsemble.nets.dropout import Dropout, drop
from sparsemble.priors import NoPrior
from sparsemble.recipes.networks import LSTMSettings
from sparsemble.samplers import Constant, SGLDSettings
from sparsemble.stages import Callback, ChainSettings, RetrainSettings, draw_samples, retrain
from sparsemble.tasks import LanguageModelling

TASK = LanguageModelling(words=WORDS)
EVERYTHING = {
    "dropout": 0.4,
    "input_dropout": 0.2,
    "output_dropout": 0.5,
    "variational": True,
    "weight_dropout": 0.3,
    "activation_penalty": 2.0,
    "change_penalty": 1.0,
}

# --- dropout ---------------------------------------------------------------------------------


def test_variational_dropout_drops_the_same_at_every_step_of_a_call():
    torch.manual_seed(0)
    values = torch.ones(9, 40, 500, requires_grad=True)
    layer = Dropout(0.3, variational=True)
    dropped = layer(values)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert not torch.equal(dropped[0, 0], dropped[0, 1])
    assert not torch.equal(dropped, layer(values))
    share = float((dropped[0] == 0).double().mean())
    assert share == pytest.approx(0.3, abs=STANDARD_ERRORS * math.sqrt(0.3 * 0.7 / 20_000))
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.7], rel=1e-4)
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped)
    assert torch.equal(layer.eval()(values), values)


def dropped_by(network: LanguageModel, tokens: Tensor) -> list[Tensor]:
    """Where each dropout of the network put zeros, in order."""
    found = []
    network.dropout.register_forward_hook(lambda _, given, out: found.append((out == 0).detach()))
    network.train()(tokens)
    return found


@pytest.mark.parametrize("variational", [False, True])
def test_a_variational_network_repeats_every_one_of_its_dropouts(variational):
    network = model(30, 20, dropout=0.5, variational=variational)
    found = dropped_by(network, text(60).view(20, 3))
    assert len(found) == 3
    for zeros in found:
        assert bool((zeros == zeros[:1]).all()) is variational


@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ({}, (0.5, 0.5, 0.5)),
        ({"input_dropout": 0.1}, (0.1, 0.5, 0.5)),
        ({"input_dropout": 0.0, "output_dropout": 0.8}, (0.0, 0.5, 0.8)),
    ],
)
def test_the_first_and_the_last_dropout_may_have_a_share_of_their_own(given, shares):
    torch.manual_seed(0)
    network = LanguageModel(7, 40, [40, 40], dropout=0.5, **given)
    found = dropped_by(network, text(2000).view(100, 20))
    for zeros, share in zip(found, shares, strict=True):
        error = math.sqrt(share * (1 - share) / zeros.numel())
        assert float(zeros.double().mean()) == pytest.approx(share, abs=STANDARD_ERRORS * error)


# --- recurrent weights -----------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_weight_dropout_is_a_network_whose_recurrent_weights_were_dropped(shared):
    network = model(weight_dropout=0.5, shared=shared)
    plain = model(shared=shared)
    plain.load_state_dict(network.state_dict())
    tokens, targets = text(60).view(20, 3), text(60).view(20, 3)
    with torch.no_grad():
        _, state = plain(tokens)
        torch.manual_seed(3)
        factors = [drop(torch.ones_like(layer.weight_hh_l0), 0.5) for layer in plain.lstms]
        for layer, factor in zip(plain.lstms, factors, strict=True):
            layer.weight_hh_l0.mul_(factor)
    torch.manual_seed(3)
    logits, after = network(tokens, state)
    expected, known = plain(tokens, state)
    torch.testing.assert_close(logits, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(after, known, rtol=1e-12, atol=1e-12)
    for outputs in (logits, expected):
        TASK.loss(outputs, targets).backward()
    for name, parameter in network.named_parameters():
        wanted = plain.get_parameter(name).grad
        if name.endswith("weight_hh_l0"):
            wanted = wanted * factors[int(name.split(".")[1])]
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-10, atol=1e-12)


def test_weight_dropout_begins_from_a_zero_state_and_draws_anew_for_every_window():
    network = model(weight_dropout=0.5)
    tokens = text(60).view(20, 3)
    zeros = tuple((torch.zeros(1, 3, n).double(),) * 2 for n in (5, 4))
    torch.manual_seed(1)
    first = network(tokens)[0]
    assert not torch.equal(network(tokens)[0], first)
    torch.manual_seed(1)
    assert torch.equal(network(tokens, zeros)[0], first)


def test_nothing_of_it_acts_in_evaluation():
    network = model(**EVERYTHING).eval()
    plain = model().eval()
    plain.load_state_dict(network.state_dict())
    tokens, targets = text(60).view(20, 3), text(60).view(20, 3)
    logits, expected = network(tokens)[0], plain(tokens)[0]
    assert torch.equal(logits, expected)
    for outputs in (logits, expected):
        TASK.loss(outputs, targets).backward()
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter.grad, plain.get_parameter(name).grad)


# --- activations -----------------------------------------------------------------------------


def explicit(network: LanguageModel, inputs: Tensor, alpha: float, beta: float):
    """Logits, and the penalties of Merity et al. for each of the window's steps, for autograd."""
    values = network.embedding(inputs)
    for layer in network.lstms:
        values = layer(network.dropout(values))[0]
    read = network.dropout(values)
    penalty = alpha * read.square().mean() + beta * values.diff(dim=0).square().mean()
    return network.decoder(read), len(inputs) * penalty


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 0.0), (0.0, 1.0), (2.0, 1.0)])
@pytest.mark.parametrize("variational", [False, True])
def test_penalties_on_activations_have_the_gradient_of_merity_and_stay_out_of_the_loss(
    alpha, beta, variational
):
    how = {"dropout": 0.4, "variational": variational}
    network = model(activation_penalty=alpha, change_penalty=beta, **how)
    plain = model(**how)
    plain.load_state_dict(network.state_dict())
    inputs, targets = text(24).view(8, 3), text(24).view(8, 3)
    torch.manual_seed(2)
    loss = TASK.loss(TASK.forward(network)(inputs), targets)
    torch.manual_seed(2)
    logits, penalty = explicit(plain, inputs, alpha, beta)
    bare = TASK.loss(logits, targets)
    assert loss.item() == pytest.approx(bare.item(), rel=1e-12)
    assert penalty.item() > 1e-3
    expected = torch.autograd.grad(bare + penalty, list(plain.parameters()))
    found = torch.autograd.grad(loss, list(network.parameters()))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_units_that_go_make_the_others_no_dearer():
    network = model(activation_penalty=2.0, change_penalty=1.0).double()
    layout, last = layout_of(network), network.lstms[-1]
    masks = full_masks(layout, network)
    # Of the last layer two units are read, and the others emit nothing.
    for name in ("decoder.weight", f"layers.{len(network.layers) - 1}.weight_hh_l0"):
        masks[name][:, 2:] = False
    with torch.no_grad():
        for tensor in last.parameters():
            tensor.view(4, last.hidden_size, -1)[:, 2:] = 0
        for name, mask in masks.items():
            network.get_parameter(name).mul_(mask)
    small = compact(network, layout, masks).network.train()
    assert small.lstms[-1].hidden_size == 2 < last.hidden_size
    inputs, targets = text(24).view(8, 3), text(24).view(8, 3)
    gradients = []
    for one in (network.train(), small):
        TASK.loss(TASK.forward(one)(inputs), targets).backward()
        gradients.append(one.embedding.weight.grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_a_single_step_has_no_change():
    network = model(change_penalty=5.0)
    plain = model()
    plain.load_state_dict(network.state_dict())
    inputs, targets = text(3).view(1, 3), text(3).view(1, 3)
    for one in (network, plain):
        TASK.loss(one(inputs)[0], targets).backward()
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter.grad, plain.get_parameter(name).grad)


def one_batch() -> TextBatches:
    """A text that is read in one step, as four windows."""
    return TextBatches(text(44), batch_size=4, window=10)


class Log(Callback):
    def __init__(self):
        self.losses = []

    def epoch_ended(self, record):
        self.losses.append(record.loss)


def test_a_chain_descends_loss_and_penalties_and_reports_the_loss():
    network, batches = model(activation_penalty=2.0, change_penalty=1.0), one_batch()
    how = ChainSettings(
        sampler=SGLDSettings(temperature=0),
        schedule=Constant(lr=0.5),
        epochs=1,
        burn_in=0,
        interval=1,
        collection="thinned",
    )
    log = Log()
    (sample,) = draw_samples(
        network, layout_of(network), TASK, batches, NoPrior(), how, callback=log
    )
    inputs, targets = next(batches.epoch(0))
    logits, penalty = explicit(network, inputs, 2.0, 1.0)
    loss = TASK.loss(logits, targets)
    assert log.losses == [pytest.approx(loss.item(), rel=1e-12)]
    (loss + penalty).backward()
    for name, parameter in network.named_parameters():
        expected = parameter.detach() - 0.5 * parameter.grad
        torch.testing.assert_close(sample.parameters[name], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("targets", ["labels", 0.5, "posterior"])
def test_members_are_retrained_with_the_whole_penalties_whatever_they_learn(targets):
    batches = one_batch()
    networks = [model(activation_penalty=2.0, change_penalty=1.0) for _ in range(2)]
    before = copy.deepcopy(networks)
    members = [Member.dense(network, layout_of(network)) for network in networks]
    how = RetrainSettings(epochs=1, schedule=Constant(lr=0.5), targets=targets)
    samples = [Member.dense(network, layout_of(network)) for network in copy.deepcopy(networks)]
    log = Log()
    retrain(members, TASK, batches, NoPrior(), how, samples=samples, callback=log)
    inputs, labels = next(batches.epoch(0))
    with torch.no_grad():
        taught = sum(network(inputs)[0].softmax(-1) for network in before) / 2
    for number, network in enumerate(before):
        logits, penalty = explicit(network, inputs, 2.0, 1.0)
        learned = TASK.taught_loss(logits, taught.log())
        loss = torch.lerp(TASK.loss(logits, labels), learned, how.taught)
        assert log.losses[number] == pytest.approx(loss.item(), rel=1e-10)
        (loss + penalty).backward()
        for name, parameter in network.named_parameters():
            expected = parameter.detach() - 0.5 * parameter.grad
            found = members[number].network.get_parameter(name)
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


# --- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_a_smaller_network_keeps_the_settings_and_gives_the_same_logits(shared):
    network = model(shared=shared, **EVERYTHING)
    layout = layout_of(network)
    masks = full_masks(layout, network)
    for leaf in ("weight_ih_l0", "weight_hh_l0"):
        masks[f"layers.0.{leaf}"].view(4, 5, -1)[:, 2] = False  # all gates of one unit
    member = compact(network, layout, masks)
    assert member.network.training_settings == EVERYTHING
    assert [layer.hidden_size for layer in member.network.lstms] == [4, 4]
    with torch.no_grad():
        for name, mask in masks.items():
            network.get_parameter(name).mul_(mask)
    tokens = text(60).view(20, 3)
    torch.testing.assert_close(
        member.eval()(tokens)[0], network.eval()(tokens)[0], rtol=1e-10, atol=1e-10
    )
    member.train()(tokens)[0].sum().backward()  # and trains with them
    assert all(p.grad is not None for p in member.parameters())


def test_a_recipe_builds_a_network_with_its_settings():
    chosen = LSTMSettings(hidden=(5, 4), **EVERYTHING).build(0, 7)
    assert chosen.training_settings == EVERYTHING
    assert LSTMSettings(hidden=(5, 4)).build(0, 7).training_settings == {"dropout": 0.0}


def test_a_network_without_them_is_described_as_it_always_was():
    # Runs that were begun before are known by this description.
    old = "LanguageModel(\n  (embedding): Embedding(7, 4)\n  (layers): ModuleList(\n"
    assert str(model()).startswith(old)
    assert "variational" not in str(model())
    for name in EVERYTHING.keys() - {"dropout", "variational"}:
        assert f"{name}={EVERYTHING[name]}" in str(model(**EVERYTHING))
    assert "variational=True" in str(model(**EVERYTHING))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dropout", 1.0),
        ("input_dropout", -0.1),
        ("output_dropout", 1.5),
        ("weight_dropout", 1.0),
        ("activation_penalty", -1.0),
        ("change_penalty", math.inf),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} = {value}"):
        model(**{name: value})
    with pytest.raises(InputError, match=name):
        LSTMSettings(hidden=(4,), **{name: value})


def test_short_floats_train_with_everything():
    network = LanguageModel(7, 8, [8, 8], **EVERYTHING)
    forward = TASK.forward(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    inputs, targets = text(60).view(20, 3), text(60).view(20, 3)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
    except RuntimeError as error:
        pytest.skip(str(error))
    for _ in range(3):
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = TASK.loss(forward(inputs), targets)
        loss.backward()
        optimiser.step()
    assert all(bool(p.isfinite().all()) for p in network.parameters())
    assert {p.dtype for p in network.parameters()} == {torch.float32}
