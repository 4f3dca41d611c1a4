"""Language models from the network to the ensemble: objective, chain, score, text, files, runs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sparsemble
from scenarios import STANDARD_ERRORS, assert_close_in_law
from sparsemble.data import TextBatches, Vocabulary, grammar
from sparsemble.ensemble import Ensemble, LanguageEnsemble
from sparsemble.errors import InputError
from sparsemble.layouts import LanguageModel, feedforward_layout, language_layout
from sparsemble.members import Member, compact
from sparsemble.priors import GroupSparse, NoPrior
from sparsemble.recipes import Recipe
from sparsemble.samplers import Constant, Exponential, SamplerSettings
from sparsemble.stages import ChainSettings, Observer, PruneSettings, RetrainSettings, draw_samples
from sparsemble.stages.objectives import LanguageModelling
from sparsemble.store import read_json, write_json
from sparsemble.structure import GroupTerms

WORDS = ("<eos>", "<unk>", "a", "b", "c", "d", "e")


def model(*hidden: int, shared=False, dropout=0.0, spread=1.0) -> LanguageModel:
    hidden = hidden or (5, 4)
    network = LanguageModel(7, 4, hidden, shared=shared, dropout=dropout, spread=spread)
    return network.double()


def text(length: int) -> Tensor:
    return torch.randint(7, (length,))


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


def assert_fresh(parameters: dict[str, Tensor], spread: float) -> None:
    weights = torch.cat([p.detach().flatten() for p in parameters.values() if p.ndim == 2])
    assert float(weights.abs().max()) <= spread
    # Uniform on ±s: variance s²/3, excess kurtosis −6/5.
    assert_close_in_law(weights, mean=0.0, variance=spread**2 / 3, excess_kurtosis=-1.2)
    biases = torch.cat([p.detach() for p in parameters.values() if p.ndim == 1])
    assert float(biases.abs().max()) < 1e-20


@pytest.mark.parametrize("shared", [False, True])
def test_weights_start_uniformly_within_the_spread_and_biases_at_zero(shared):
    network = LanguageModel(50, 20, [30, 20], shared=shared, spread=0.04)
    assert_fresh(dict(network.named_parameters()), spread=0.04)


def test_every_chain_starts_within_the_spread():
    network = LanguageModel(50, 20, [30, 20], spread=0.04)
    batches = TextBatches(torch.randint(50, (40,)), 2, window=19)
    still = settings(schedule=Constant(rate=1e-30), chains=2)
    first, second = draw_samples(network, language_layout(network), batches, NoPrior(), still)
    assert_fresh(first.parameters, spread=0.04)
    assert_fresh(second.parameters, spread=0.04)
    assert not torch.equal(
        first.parameters["embedding.weight"], second.parameters["embedding.weight"]
    )


# --- the objective ---------------------------------------------------------------------------


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
    loss = LanguageModelling(network, window=4)(inputs, targets)
    torch.testing.assert_close(loss, by_hand(network, inputs, targets), rtol=1e-12, atol=1e-12)


def test_a_window_starts_from_the_state_the_last_one_left_without_its_gradient():
    network = model()
    objective = LanguageModelling(network, window=4)
    inputs, targets = text(24).view(8, 3), text(24).view(8, 3)
    objective(inputs[:4], targets[:4])
    loss = objective(inputs[4:], targets[4:])
    with torch.no_grad():
        _, state = network(inputs[:4])
    expected = by_hand(network, inputs[4:], targets[4:], state)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    parameters = list(network.parameters())
    truncated = torch.autograd.grad(expected, parameters)
    torch.testing.assert_close(torch.autograd.grad(loss, parameters), truncated)


def test_a_new_epoch_starts_from_the_zero_state():
    objective = LanguageModelling(model(), window=4)
    window = text(12).view(4, 3), text(12).view(4, 3)
    first, second = objective(*window), objective(*window)
    objective.begin_epoch()
    assert objective(*window).item() == first.item() != second.item()


def test_what_is_carried_can_be_handed_to_another_objective():
    network = model()
    first, second = LanguageModelling(network, window=4), LanguageModelling(network, window=4)
    window = text(12).view(4, 3), text(12).view(4, 3)
    assert first.carried() == {}
    first(*window)
    second.carry({name: tensor.clone() for name, tensor in first.carried().items()})
    assert len(first.carried()) == 2 * 2  # hidden and cell state of two layers
    expected = first(*window).item()
    assert second(*window).item() == expected
    second.carry({})
    assert second(*window).item() != expected


# --- the chain -------------------------------------------------------------------------------


def settings(**changes) -> ChainSettings:
    fields = {
        "sampler": SamplerSettings(temperature=0),
        "schedule": Constant(rate=0.5),
        "epochs": 1,
        "burn_in": 0,
        "interval": 1,
    }
    return ChainSettings(**(fields | changes))


def sampled(network: LanguageModel, batches: TextBatches, chosen, prior=None) -> dict[str, Tensor]:
    layout = language_layout(network)
    return draw_samples(network, layout, batches, prior or NoPrior(), chosen)[-1].parameters


@pytest.mark.parametrize("shared", [False, True])
def test_at_temperature_zero_a_chain_is_the_plain_training_loop(shared):
    # A limit that is never reached multiplies by one: equal bit for bit.
    network, batches = model(shared=shared), TextBatches(text(100), 4, window=7)
    sample = sampled(network, batches, settings(epochs=3, clip=1e6, interval=3))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    for epoch in range(3):
        state = None
        for inputs, targets in batches.epoch(epoch):
            optimiser.zero_grad()
            logits, state = network(inputs, state)
            state = tuple((h.detach(), c.detach()) for h, c in state)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / 4
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1e6)
            optimiser.step()
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
    (0.1 * GroupTerms(language_layout(network), parameters).penalty()).backward()
    for name, p in parameters.items():
        prior = 0.0 if p.grad is None else p.grad
        expected = p.detach() - 0.5 * (clipped[name] + prior)
        torch.testing.assert_close(sample[name], expected, rtol=1e-12, atol=1e-12)


def test_clipping_comes_before_the_noise():
    network, batches = model(30, 4), one_batch()
    hot = settings(clip=1e-3, sampler=SamplerSettings(temperature=3.0))
    cold, warm = sampled(network, batches, settings(clip=1e-3)), sampled(network, batches, hot)
    noise = torch.cat([(warm[name] - cold[name]).flatten() for name in cold])
    assert_close_in_law(noise, mean=0.0, variance=2 * 0.5 * 3.0 / 4)  # 2ηT/N, N windows


def test_the_traces_perplexity_is_that_of_the_training_text():
    # 40 targets in windows of 30 and 10: every one counts the same.
    network, tokens = model(), text(41)
    records = []

    class Log(Observer):
        def epoch_ended(self, record):
            records.append(record)

    batches = TextBatches(tokens, 1, window=30)
    still = settings(schedule=Constant(rate=1e-30))
    draw_samples(network, language_layout(network), batches, NoPrior(), still, observer=Log())
    total = by_hand(network, tokens[:-1].view(-1, 1), tokens[1:].view(-1, 1))
    assert records[0].perplexity == pytest.approx(math.exp(total.item() / 40), rel=1e-9)


# --- the ensemble's score --------------------------------------------------------------------


def members(count=3, *, grouping="iss", shared=False, sparsity=0.6) -> list[Member]:
    made = []
    for _ in range(count):
        network = model(shared=shared, spread=1.5)
        layout = language_layout(network, grouping)
        masks = sparsemble.prune(dict(network.named_parameters()), layout, sparsity=sparsity)
        made.append(compact(network, layout, masks))
    return made


def ensemble(count=3, **how) -> LanguageEnsemble:
    return LanguageEnsemble(members(count, **how), vocabulary=Vocabulary(WORDS))


@torch.no_grad()
def naive_perplexity(chosen: list[Member], tokens: Tensor, streams: int = 1) -> float:
    """From the whole distribution of every member at every position of every piece."""
    length = math.ceil(len(tokens) / streams)
    total = 0.0
    for start in range(0, len(tokens), length):
        piece = tokens[start : start + length]
        before = tokens[start - 1] if start else torch.tensor(0)  # <eos>
        inputs = torch.cat([before.view(1), piece[:-1]]).view(-1, 1)
        mean = sum(member.network(inputs)[0].softmax(-1) for member in chosen) / len(chosen)
        total -= sum(float(mean[k, 0, word].log()) for k, word in enumerate(piece))
    return math.exp(total / len(tokens))


@pytest.mark.parametrize("streams", [1, 3, 8])
@pytest.mark.parametrize("grouping", ["untied", "iss"])
def test_the_score_is_that_of_the_averaged_probabilities(streams, grouping):
    chosen = ensemble(grouping=grouping)
    tokens = text(601)  # over several segments, and no multiple of the streams
    score = chosen.score(tokens, streams=streams)
    assert score.tokens == 601
    assert score.perplexity == pytest.approx(naive_perplexity(list(chosen), tokens, streams))
    assert score.members == pytest.approx([naive_perplexity([m], tokens, streams) for m in chosen])


def test_the_curve_tells_what_the_first_members_reach_together():
    chosen, tokens = ensemble(), text(300)
    firsts = [
        LanguageEnsemble(list(chosen)[:count], vocabulary=chosen.vocabulary).score(tokens)
        for count in (1, 2, 3)
    ]
    curve = chosen.score(tokens).curve
    assert curve == pytest.approx([first.perplexity for first in firsts], rel=1e-12)
    assert len(set(curve)) == 3


@pytest.mark.parametrize("streams", [1, 4])
def test_the_largest_tensor_does_not_grow_with_the_text(streams):
    dense = Member.dense(model(), language_layout(model()))
    shapes = set()
    dense.network.decoder.register_forward_hook(lambda _, __, out: shapes.add(out.numel()))
    largest = []
    for length in (400, 4000):
        LanguageEnsemble([dense], vocabulary=Vocabulary(WORDS)).score(text(length), streams=streams)
        largest.append(max(shapes))
        shapes.clear()
    assert largest[0] == largest[1] <= 256 * 7


@pytest.mark.parametrize(
    ("tokens", "streams", "message"),
    [
        (torch.tensor([1, 2]), 0, "cannot be read in 0 streams"),
        (torch.tensor([1, 2]), 3, "cannot be read in 3 streams"),
        (torch.tensor([]).long(), 1, "a text of 0 tokens"),
        (torch.tensor([1, 7, 2]), 1, "7"),
        (torch.tensor([1, 2, -100]), 1, "-100"),
        (torch.tensor([1.0, 2.0]), 1, "float32"),
    ],
)
def test_a_text_that_cannot_be_scored_is_refused(tokens, streams, message):
    with pytest.raises(InputError, match=message):
        ensemble(1).score(tokens, streams=streams)


# --- words -----------------------------------------------------------------------------------


@torch.no_grad()
def naive_next(chosen: LanguageEnsemble, start: list[str]) -> Tensor:
    read = torch.tensor([WORDS.index(word) for word in ["<eos>", *start]]).view(-1, 1)
    return sum(m.network(read)[0][-1, 0].softmax(-1) for m in chosen) / len(chosen)


def test_the_next_words_are_the_most_probable_ones_in_order():
    chosen = ensemble()
    expected = naive_next(chosen, ["a", "c"])
    found = chosen.next_words(["a", "c"], count=99)
    assert [word for word, _ in found] == [WORDS[k] for k in expected.argsort(descending=True)]
    assert [p for _, p in found] == pytest.approx(expected.sort(descending=True).values.tolist())
    assert chosen.next_words(["a", "c"], count=2) == found[:2]


def test_a_text_is_reproduced_by_its_seed():
    chosen = ensemble()
    first = list(chosen.generate(40, start=["a"], seed=3))
    assert first == list(chosen.generate(40, start=["a"], seed=3))
    assert first != list(chosen.generate(40, start=["a"], seed=4))
    assert len(first) == 40
    assert set(first) <= set(WORDS)


@pytest.mark.parametrize("temperature", [0.02, 1e-3, 1e-6])
def test_a_temperature_near_zero_takes_the_most_probable_word(temperature):
    chosen, said = ensemble(), ["a"]
    for _ in range(12):
        said.append(WORDS[int(naive_next(chosen, said).argmax())])
    assert list(chosen.generate(12, start=["a"], temperature=temperature)) == said[1:]


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_words_are_drawn_from_the_mean_probabilities_to_the_power_of_one_over_temperature(
    temperature,
):
    # Without decoder weights every word's logit is its bias, whatever was said before.
    chosen = ensemble(2, sparsity=0.0)
    for member in chosen:
        with torch.no_grad():
            member.network.decoder.weight.zero_()
            member.network.decoder.bias.normal_()
    law = sum(m.network.decoder.bias.softmax(-1) for m in chosen) / 2
    law = law ** (1 / temperature) / (law ** (1 / temperature)).sum()
    counts = Counter(chosen.generate(2000, temperature=temperature))
    for word, p in zip(WORDS, law.tolist(), strict=True):
        assert abs(counts[word] - 2000 * p) < STANDARD_ERRORS * math.sqrt(2000 * p * (1 - p))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_that_is_none_is_refused(temperature):
    with pytest.raises(InputError, match="temperature = "):
        list(ensemble(1).generate(1, temperature=temperature))


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("grouping", ["untied", "tied", "iss"])
@pytest.mark.parametrize("shared", [False, True])
def test_everything_saved_comes_back(tmp_path, grouping, shared):
    chosen, tokens = ensemble(grouping=grouping, shared=shared, sparsity=0.8), text(300)
    chosen.save(tmp_path)
    loaded = LanguageEnsemble.load(tmp_path)
    assert loaded.score(tokens) == chosen.score(tokens)
    assert loaded.vocabulary == chosen.vocabulary
    assert loaded.cost == chosen.cost
    for new, old in zip(loaded, chosen, strict=True):
        assert new.layout == old.layout
        assert new.cost == old.cost
        assert new.network.shared is shared
        assert new.origin.group_sizes == old.origin.group_sizes


def classifiers() -> Ensemble:
    network = nn.Linear(3, 7)
    return Ensemble([Member.dense(network, feedforward_layout(network))])


def test_each_kind_of_ensemble_says_who_reads_it(tmp_path):
    ensemble(1).save(tmp_path / "language")
    classifiers().save(tmp_path / "classes")
    with pytest.raises(InputError, match=r"holds language models: use LanguageEnsemble\.load"):
        Ensemble.load(tmp_path / "language")
    with pytest.raises(InputError, match=r"holds classifiers: use Ensemble\.load"):
        LanguageEnsemble.load(tmp_path / "classes")


@pytest.mark.parametrize("words", [WORDS[:-1], (*WORDS, "f"), (*WORDS[:-1], "a"), None])
def test_a_manifest_whose_vocabulary_does_not_fit_is_refused(tmp_path, words):
    ensemble(1).save(tmp_path)
    manifest = read_json(tmp_path / "manifest.json")
    write_json(tmp_path / "manifest.json", manifest | {"vocabulary": words})
    with pytest.raises(InputError, match=r"manifest\.json"):
        LanguageEnsemble.load(tmp_path)


def test_classifiers_given_a_vocabulary_are_refused(tmp_path):
    classifiers().save(tmp_path)
    manifest = read_json(tmp_path / "manifest.json")
    write_json(tmp_path / "manifest.json", manifest | {"vocabulary": WORDS})
    with pytest.raises(InputError, match=r"manifest\.json"):
        LanguageEnsemble.load(tmp_path)


# --- whole runs ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus():
    """The beginning of the built-in text."""
    whole = grammar()
    return replace(whole, train=whole.train[:2000], valid=whole.valid[:300], test=whole.test[:300])


def fresh() -> LanguageModel:
    return LanguageModel(234, 8, [8, 8], dropout=0.1)


def recipe(*, batch_sizes=(10, 10), autocast=False, **changes) -> Recipe:
    how = {"clip": 5.0, "autocast": autocast}
    fields = {
        "seed": 1,
        "window": 10,
        "prior": GroupSparse(penalty=1e-3),
        "chain": ChainSettings(
            sampler=SamplerSettings(temperature=1e-3),
            schedule=Constant(rate=0.5),
            epochs=4,
            burn_in=2,
            interval=1,
            batch_size=batch_sizes[0],
            **how,
        ),
        "prune": PruneSettings(sparsity=0.7),
        "retrain": RetrainSettings(
            schedule=Exponential(rate=0.5, factor=1.1), epochs=3, batch_size=batch_sizes[1], **how
        ),
    }
    return Recipe(**(fields | changes))


@pytest.fixture(scope="module")
def learned(corpus):
    return sparsemble.learn(fresh, corpus, recipe())


def test_a_run_gives_a_sparse_ensemble_that_learned_something(corpus, learned):
    assert isinstance(learned.ensemble, LanguageEnsemble)
    assert learned.ensemble.vocabulary == corpus.vocabulary
    dense = learned.ensemble.cost.dense_parameters
    assert dense == 2 * 234 * 8 + 2 * 32 * 16
    assert learned.ensemble.cost.parameters <= 2 * round(0.3 * dense)
    assert learned.ensemble.score(corpus.valid).perplexity < 150  # guessing has 234
    for member in learned.ensemble:
        for name, mask in member.masks.items():
            assert not member.network.get_parameter(name)[~mask].any()
    stages = [(record.stage, record.chain, record.epoch) for record in learned.trace]
    retrained = [("retrain", member, epoch) for member in (0, 1) for epoch in (1, 2, 3)]
    assert stages == [("chain", 0, epoch) for epoch in (1, 2, 3, 4)] + retrained


class Killed(BaseException):
    pass


class KillAt(Observer):
    def __init__(self, stage: str, chain: int, step: int) -> None:
        self.at = (stage, chain, step)
        self.stage = ""

    def started(self, stage, chain, chains, done, total):
        self.stage = stage

    def stepped(self, chain, step, loss, save):
        if (self.stage, chain, step) == self.at:
            raise Killed


@pytest.mark.parametrize(
    "at", [("chain", 0, 7), ("chain", 0, 65), ("retrain", 0, 13), ("retrain", 1, 25)]
)
def test_a_run_stopped_within_an_epoch_and_started_again_gives_the_same_bits(
    corpus, learned, tmp_path, monkeypatch, at
):
    # A checkpoint after every step: the resumed run begins in the middle of a carried state.
    monkeypatch.setattr("sparsemble.runs.keeper.Keeper.__init__.__defaults__", (None, 0.0))
    with pytest.raises(Killed):
        sparsemble.learn(fresh, corpus, recipe(), folder=tmp_path, observer=KillAt(*at))
    resumed = sparsemble.learn(fresh, corpus, recipe(), folder=tmp_path)
    saved = LanguageEnsemble.load(tmp_path / "ensemble")
    for found in (resumed.ensemble, saved):
        for new, old in zip(found, learned.ensemble, strict=True):
            parameters = dict(new.network.named_parameters())
            for name, parameter in old.network.named_parameters():
                assert torch.equal(parameters[name], parameter)
    losses = [[record.loss for record in run.trace] for run in (resumed, learned)]
    assert losses[0] == losses[1]


def test_autocast_trains_in_short_floats_and_keeps_long_weights(corpus, learned):
    short = sparsemble.learn(fresh, corpus, recipe(autocast=True))
    assert all(math.isfinite(record.loss) for record in short.trace)
    assert {p.dtype for p in short.ensemble.parameters()} == {torch.float32}
    score = short.ensemble.score(corpus.valid).perplexity
    assert score == pytest.approx(learned.ensemble.score(corpus.valid).perplexity, rel=0.1)
    assert short.trace[0].loss != learned.trace[0].loss


@pytest.mark.parametrize(
    ("network", "changes", "message"),
    [
        (LanguageModel(99, 4, [4]), {}, "the text has 234 words, the network 99"),
        (nn.Linear(8, 234), {}, "a LanguageModel learns from a Corpus and nothing else does"),
        (fresh, {"grouping": "outgoing"}, "'outgoing' is not 'untied', 'tied' or 'iss'"),
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
    with pytest.raises(InputError, match="a LanguageModel learns from a Corpus"):
        sparsemble.learn(fresh, (torch.zeros(9, 8), torch.zeros(9).long()), recipe())
