"""Ensembles of language models: scoring a text, drawing words, files."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import sparsemble
from scenarios import STANDARD_ERRORS, WORDS, model, text
from sparsemble import generate, layout_of, next_words
from sparsemble.data import Corpus, Text, TextBatches, Vocabulary
from sparsemble.ensemble import Ensemble
from sparsemble.errors import InputError
from sparsemble.members import Member, compact, with_sparse_layers
from sparsemble.stages.divergence import DivergenceSettings, DivergenceWatch
from sparsemble.store import read_json, write_json
from sparsemble.tasks import Classification, LanguageModelling, Score, task_for

# --- the ensemble's score --------------------------------------------------------------------


def members(count=3, *, grouping="iss", sparsity=0.6, **how) -> list[Member]:
    made = []
    for _ in range(count):
        network = model(init_range=1.5, **how)
        layout = layout_of(network, grouping)
        masks = sparsemble.prune(dict(network.named_parameters()), layout, sparsity=sparsity)
        made.append(compact(network, layout, masks))
    return made


def ensemble(count=3, **how) -> Ensemble:
    return Ensemble(members(count, **how), LanguageModelling(words=WORDS))


def score(chosen: Ensemble, tokens: Tensor, streams: int = 1) -> Score:
    return chosen.evaluate(Text(tokens, streams=streams))


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
    found = score(chosen, tokens, streams)
    assert found.count == 601
    assert found["perplexity"] == pytest.approx(naive_perplexity(list(chosen), tokens, streams))
    alone = [naive_perplexity([m], tokens, streams) for m in chosen]
    assert found.members["perplexity"] == pytest.approx(alone)


@pytest.mark.slow
@pytest.mark.parametrize("grouping", ["untied", "tied"])
def test_index_lists_read_and_write_the_same_text(grouping, monkeypatch):
    chosen, tokens = ensemble(grouping=grouping, sparsity=0.8), text(300)
    start = [WORDS[int(token)] for token in tokens]

    def said():
        drawn = list(generate(chosen, 40, start=start, seed=1))
        return score(chosen, tokens), drawn, next_words(chosen, start)

    plain_score, drawn, following = said()
    listing = partial(with_sparse_layers, least_area=0)
    monkeypatch.setattr("sparsemble.ensemble.ensemble.with_sparse_layers", listing)
    assert any(listing(member) is not member.network for member in chosen)
    chosen.refresh()
    listed_score, listed_drawn, listed_following = said()
    for key in ("curve", "members"):
        wanted = getattr(plain_score, key)["perplexity"]
        assert getattr(listed_score, key)["perplexity"] == pytest.approx(wanted, rel=1e-12)
    assert listed_drawn == drawn
    assert dict(listed_following) == pytest.approx(dict(following), rel=1e-12)


def test_next_words_follow_a_text_of_any_length():
    chosen, tokens = ensemble(), text(700)  # of several segments
    after = dict(next_words(chosen, [WORDS[int(token)] for token in tokens]))
    with torch.no_grad():
        read = torch.cat([torch.tensor([0]), tokens]).view(-1, 1)
        mean = sum(member.network(read)[0][-1, 0].softmax(-1) for member in chosen) / len(chosen)
    assert after == pytest.approx(dict(zip(WORDS, mean.tolist(), strict=True)))


def test_the_curve_tells_what_the_first_members_reach_together():
    chosen, tokens = ensemble(), text(300)
    firsts = [
        score(Ensemble(list(chosen)[:count], chosen.task), tokens)["perplexity"]
        for count in (1, 2, 3)
    ]
    curve = score(chosen, tokens).curve["perplexity"]
    assert curve == pytest.approx(firsts, rel=1e-12)
    assert len(set(curve)) == 3


@pytest.mark.parametrize("streams", [1, 4])
def test_the_largest_tensor_does_not_grow_with_the_text(streams):
    dense = Member.dense(model(), layout_of(model()))
    shapes = set()
    dense.network.decoder.register_forward_hook(lambda _, __, out: shapes.add(out.numel()))
    largest = []
    for length in (400, 4000):
        score(Ensemble([dense], LanguageModelling(words=WORDS)), text(length), streams)
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
        score(ensemble(1), tokens, streams)


# --- words -----------------------------------------------------------------------------------


@torch.no_grad()
def naive_next(chosen: Ensemble, start: list[str]) -> Tensor:
    read = torch.tensor([WORDS.index(word) for word in ["<eos>", *start]]).view(-1, 1)
    return sum(m.network(read)[0][-1, 0].softmax(-1) for m in chosen) / len(chosen)


def test_the_next_words_are_the_most_probable_ones_in_order():
    chosen = ensemble()
    expected = naive_next(chosen, ["a", "c"])
    found = next_words(chosen, ["a", "c"], count=99)
    assert [word for word, _ in found] == [WORDS[k] for k in expected.argsort(descending=True)]
    assert [p for _, p in found] == pytest.approx(expected.sort(descending=True).values.tolist())
    assert next_words(chosen, ["a", "c"], count=2) == found[:2]
    assert next_words(chosen, "a c", count=2) == found[:2]


def test_a_text_is_reproduced_by_its_seed():
    chosen = ensemble()
    first = list(generate(chosen, 40, start=["a"], seed=3))
    assert first == list(generate(chosen, 40, start=["a"], seed=3))
    assert first == list(generate(chosen, 40, start="a", seed=3))
    assert first != list(generate(chosen, 40, start=["a"], seed=4))
    assert len(first) == 40
    assert set(first) <= set(WORDS)


@pytest.mark.parametrize("temperature", [1e-3, 1e-6, 1e-310])
def test_a_temperature_near_zero_takes_the_most_probable_word(temperature):
    chosen, said = ensemble(), ["a"]
    for _ in range(12):
        said.append(WORDS[int(naive_next(chosen, said).argmax())])
    assert list(generate(chosen, 12, start=["a"], temperature=temperature)) == said[1:]


@pytest.mark.slow
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
    counts = Counter(generate(chosen, 2000, temperature=temperature))
    for word, p in zip(WORDS, law.tolist(), strict=True):
        assert abs(counts[word] - 2000 * p) < STANDARD_ERRORS * math.sqrt(2000 * p * (1 - p))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_a_temperature_that_is_none_is_refused(temperature):
    with pytest.raises(InputError, match="temperature = "):
        list(generate(ensemble(1), 1, temperature=temperature))


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("grouping", ["untied", "tied", "iss"])
@pytest.mark.parametrize("shared", [False, True])
def test_everything_saved_comes_back(tmp_path, grouping, shared):
    chosen, tokens = ensemble(grouping=grouping, shared=shared, sparsity=0.8), text(300)
    chosen.save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    assert score(loaded, tokens) == score(chosen, tokens)
    assert loaded.task == chosen.task
    assert loaded.cost == chosen.cost
    for new, old in zip(loaded, chosen, strict=True):
        assert new.layout == old.layout
        assert new.cost == old.cost
        assert new.network.shared is shared
        assert new.origin.group_sizes == old.origin.group_sizes


TRAINED = {
    "dropout": 0.4,
    "input_dropout": 0.0,
    "output_dropout": 0.5,
    "variational": True,
    "weight_dropout": 0.3,
    "activation_penalty": 2.0,
    "change_penalty": 1.0,
}


@pytest.mark.parametrize("how", [{"dropout": 0.4}, TRAINED])
def test_how_members_were_trained_comes_back_with_them(tmp_path, how):
    chosen = Ensemble(members(2, **how), LanguageModelling(words=WORDS, window=9, jitter=0.2))
    chosen.save(tmp_path)
    loaded = Ensemble.load(tmp_path)
    assert [member.network.training_settings for member in loaded] == [how, how]
    assert (loaded.task.window, loaded.task.jitter) == (9, 0.2)


def test_what_is_off_leaves_a_saved_ensemble_as_it_was(tmp_path):
    ensemble(1).save(tmp_path)
    manifest = read_json(tmp_path / "manifest.json")
    described = {"words", "embedding", "hidden", "dropout", "shared"}
    assert set(manifest["members"][0]["network"]) == described
    assert set(manifest["task"]) == {"kind", "window", "words"}
    manifest["members"][0]["network"]["recurrent_dropout"] = 0.1
    write_json(tmp_path / "manifest.json", manifest)
    with pytest.raises(InputError, match=r"a network is described by .*'recurrent_dropout'"):
        Ensemble.load(tmp_path)


def test_members_predict_without_dropout_in_whatever_mode_they_are():
    chosen, tokens = Ensemble(members(2, **TRAINED), LanguageModelling(words=WORDS)), text(60)
    before = score(chosen.eval(), tokens)
    chosen.train()
    assert score(chosen, tokens) == before
    assert all(layer.training for layer in chosen.members.modules())  # and go on as they were


def classifiers() -> Ensemble:
    network = nn.Linear(3, 7)
    return Ensemble([Member.dense(network, layout_of(network))], Classification())


def test_text_is_drawn_from_language_models_only():
    for draw in (lambda: generate(classifiers(), 3), lambda: next_words(classifiers(), ["a"])):
        with pytest.raises(InputError, match="holds classifiers: text is drawn from language"):
            draw()


@pytest.mark.parametrize("words", [WORDS[:-1], (*WORDS, "f"), (*WORDS[:-1], "a"), None])
def test_a_manifest_whose_vocabulary_does_not_fit_is_refused(tmp_path, words):
    ensemble(1).save(tmp_path)
    manifest = read_json(tmp_path / "manifest.json")
    manifest["task"]["words"] = words
    write_json(tmp_path / "manifest.json", manifest)
    with pytest.raises(InputError, match=r"manifest\.json"):
        Ensemble.load(tmp_path)


def test_classifiers_given_a_vocabulary_are_refused(tmp_path):
    classifiers().save(tmp_path)
    manifest = read_json(tmp_path / "manifest.json")
    task = {"kind": "language-modelling", "words": WORDS}
    write_json(tmp_path / "manifest.json", manifest | {"task": task})
    with pytest.raises(InputError, match=r"manifest\.json"):
        Ensemble.load(tmp_path)


# --- the task --------------------------------------------------------------------------------


def test_the_loss_is_summed_over_a_window_and_averaged_over_its_streams():
    logits, targets = torch.randn(5, 3, 7).double(), torch.randint(7, (5, 3))
    logs = logits.log_softmax(-1)
    expected = -sum(float(logs[t, s, targets[t, s]]) for t in range(5) for s in range(3)) / 3
    task = LanguageModelling(words=WORDS)
    assert float(task.loss(logits, targets)) == pytest.approx(expected, rel=1e-12)
    several = task.loss(torch.stack([logits, 2 * logits]), targets)
    assert several.tolist() == pytest.approx([expected, float(task.loss(2 * logits, targets))])


@pytest.mark.parametrize("seed", range(40))
def test_windows_of_different_lengths_are_no_divergence(seed):
    # Guessing all the time: the loss of a window is as large as the window is long.
    batches = TextBatches(torch.zeros(20_000).long(), 20, window=35, jitter=0.25, seed=seed)
    watch = DivergenceWatch(DivergenceSettings(), batches.mean_window)
    losses = (len(inputs) for epoch in range(4) for inputs, _ in batches.epoch(epoch))
    assert all(watch.reason(loss) is None for loss in losses)


def test_a_corpus_is_for_language_modelling_and_brings_its_words():
    parts = {part: torch.tensor([1, 2, 0, 1, 0]) for part in ("train", "validation", "test")}
    corpus = Corpus(Vocabulary(("<eos>", "a", "b")), **parts, unknown={}, name="mine")
    assert task_for(corpus) == LanguageModelling()
    assert LanguageModelling().training(corpus).task.words == ("<eos>", "a", "b")
    with pytest.raises(InputError, match="the text has 3 words, the network 4"):
        LanguageModelling().training(corpus, outputs=4)


def test_uncertainty_of_the_next_word_is_that_of_the_mean_probabilities():
    chosen = ensemble()
    tokens = text(6).view(-1, 1)
    found = chosen.uncertainty(tokens)
    with torch.no_grad():
        each = torch.stack([member.network(tokens)[0].softmax(-1) for member in chosen])
    total = -(each.mean(0) * each.mean(0).log()).sum(-1)
    own = -(each * each.log()).sum(-1).mean(0)
    torch.testing.assert_close(found.total, total)
    torch.testing.assert_close(found.epistemic, total - own)


def test_no_words_cannot_be_asked_for():
    with pytest.raises(InputError, match="count = 0: ask for one word at least"):
        next_words(ensemble(), WORDS[:1], 0)
