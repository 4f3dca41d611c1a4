"""The built-in text: its entropy is known, so a model's loss can be held against the best one."""

import hashlib
import math
from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from sparsemble.data import grammar
from sparsemble.data.grammar import Grammar
from sparsemble.data.language import START, rules
from sparsemble.data.vocabulary import END
from sparsemble.errors import InputError

NOTHING = ""


@cache
def language() -> Grammar:
    return Grammar(START, rules())


@cache
def sentences(count: int = 20_000) -> tuple[list[list[str]], np.ndarray]:
    texts, log_probabilities = language().sample(torch.Generator().manual_seed(11), count)
    return texts, np.array(log_probabilities)


def derivations(source: Grammar, sentence: list[str]) -> tuple[int, float]:
    """How many derivations a sentence has and the sum of their probabilities, by trying all."""

    @cache
    def ends(symbol: str, first: int) -> dict[int, tuple[int, float]]:
        if symbol not in source.rules:
            matches = first < len(sentence) and sentence[first] == symbol
            return {first + 1: (1, 1.0)} if matches else {}
        total: dict[int, tuple[int, float]] = {}
        for probability, symbols in source.rules[symbol]:
            reached = {first: (1, probability)}
            for part in symbols:
                further: dict[int, tuple[int, float]] = {}
                for middle, (count, mass) in reached.items():
                    for end, (more, factor) in ends(part, middle).items():
                        old = further.get(end, (0, 0.0))
                        further[end] = (old[0] + count * more, old[1] + mass * factor)
                reached = further
            for end, (count, mass) in reached.items():
                old = total.get(end, (0, 0.0))
                total[end] = (old[0] + count, old[1] + mass)
        return total

    return ends(source.start, 0).get(len(sentence), (0, 0.0))


def first_words(source: Grammar) -> dict[str, set[str]]:
    """The words each symbol can begin with, and `NOTHING` if it can be empty."""
    first: dict[str, set[str]] = {symbol: set() for symbol in source.rules}
    while True:
        before = sum(map(len, first.values()))
        for symbol, alternatives in source.rules.items():
            for _, symbols in alternatives:
                first[symbol] |= beginning(symbols, first)
        if sum(map(len, first.values())) == before:
            return first


def beginning(symbols: tuple[str, ...], first: dict[str, set[str]]) -> set[str]:
    words: set[str] = set()
    for symbol in symbols:
        begins = first.get(symbol, {symbol})
        words |= begins - {NOTHING}
        if NOTHING not in begins:
            return words
    return words | {NOTHING}


def next_words(source: Grammar, first: dict[str, set[str]]) -> dict[str, set[str]]:
    """The words that can come after each symbol."""
    after: dict[str, set[str]] = {symbol: set() for symbol in source.rules}
    after[source.start].add(END)
    while True:
        before = sum(map(len, after.values()))
        for symbol, alternatives in source.rules.items():
            for _, symbols in alternatives:
                for place, part in enumerate(symbols):
                    if part in source.rules:
                        rest = beginning(symbols[place + 1 :], first)
                        after[part] |= rest - {NOTHING}
                        if NOTHING in rest:
                            after[part] |= after[symbol]
        if sum(map(len, after.values())) == before:
            return after


def conflicts(source: Grammar) -> list[tuple[str, str]]:
    """Symbols with a next word that two of their rules could go on with."""
    first = first_words(source)
    after = next_words(source, first)
    found = []
    for symbol, alternatives in source.rules.items():
        deciding: Counter[str] = Counter()
        for _, symbols in alternatives:
            words = beginning(symbols, first)
            deciding.update(words - {NOTHING} | (after[symbol] if NOTHING in words else set()))
        found += [(symbol, word) for word, count in deciding.items() if count > 1]
    return found


def test_the_next_word_always_decides_the_rule_so_that_no_sentence_has_two_derivations():
    assert conflicts(language()) == []


def test_every_sampled_sentence_has_one_derivation_with_the_probability_that_was_reported():
    texts, log_probabilities = sentences()
    for text, log_probability in zip(texts[:1000], log_probabilities[:1000], strict=True):
        count, probability = derivations(language(), text)
        assert count == 1
        assert math.log(probability) == pytest.approx(log_probability, abs=1e-9)


def test_the_checks_see_an_ambiguity():
    dangling = Grammar("S", {"S": {"if S": 1, "if S else S": 1, "x": 3}})
    assert derivations(dangling, ["if", "if", "x", "else", "x"])[0] == 2
    assert ("S", "if") in conflicts(dangling)
    optional = Grammar("S", {"S": {"A? a": 1}, "A?": {"a": 1, "": 1}})
    assert conflicts(optional) == [("A?", "a")]
    assert derivations(optional, ["b"]) == (0, 0.0)


def test_agreement_and_closing_words_are_kept_over_any_distance():
    def possible(text: str) -> bool:
        return derivations(language(), text.split())[0] == 1

    assert possible("the dog which the girls near the river feed sleeps")
    assert not possible("the dog which the girls near the river feed sleep")
    assert not possible("the dog who the girls near the river feed sleeps")
    assert possible("the ladders which a kind farmer who sings uses are wooden today")
    assert not possible("the ladders which a kind farmer who sings uses are hungry today")
    assert possible("if either anna works or the mice hide then both ben and clara laugh")
    assert not possible("if either anna works then the mice hide or both ben and clara laugh")
    assert not possible("anna bakes the hammer")


def test_the_entropy_of_a_repeated_coin_is_the_one_worked_out_by_hand():
    # k times a, then b, with probability 2^-(k+1): 2 bits and 2 words on average, and <eos>.
    coin = Grammar("S", {"S": {"a S": 1, "b": 1}})
    assert coin.entropy_per_sentence == pytest.approx(2 * math.log(2))
    assert coin.expected_length == pytest.approx(3)
    assert coin.entropy == pytest.approx(2 * math.log(2) / 3)


def test_the_entropy_of_a_finite_language_is_that_of_its_listed_sentences():
    # Nested, with an empty rule and weights that do not add up to 1.
    source = Grammar(
        "S", {"S": {"N V": 6, "N": 2}, "N": {"x": 1, "y A?": 3}, "A?": {"z": 1, "": 4}}
    )
    nouns = {"x": 1 / 4, "y z": 3 / 4 / 5, "y": 3 / 4 * 4 / 5}
    listed = {f"{noun} V": p * 3 / 4 for noun, p in nouns.items()}
    listed |= {noun: p / 4 for noun, p in nouns.items()}
    assert source.words == ("V", "x", "y", "z")
    entropy = -sum(p * math.log(p) for p in listed.values())
    length = sum(p * (len(text.split()) + 1) for text, p in listed.items())
    assert source.entropy_per_sentence == pytest.approx(entropy)
    assert source.expected_length == pytest.approx(length)
    drawn, _ = source.sample(torch.Generator().manual_seed(5), 20_000)
    shares = Counter(" ".join(text) for text in drawn)
    for text, p in listed.items():
        # Five standard errors.
        assert shares[text] / 20_000 == pytest.approx(p, abs=5 * math.sqrt(p / 20_000))


def test_entropy_and_length_in_closed_form_agree_with_sampling():
    texts, log_probabilities = sentences()
    lengths = np.array([len(text) + 1 for text in texts])
    for drawn, exact in (
        (-log_probabilities, language().entropy_per_sentence),
        (lengths, language().expected_length),
    ):
        assert drawn.mean() == pytest.approx(exact, abs=4 * drawn.std() / math.sqrt(len(drawn)))


def test_the_language_cannot_be_predicted_from_the_last_word_alone():
    # Pairs counted on the same text flatter the prediction, so the gap is at least this.
    stream = [word for text in sentences()[0] for word in (*text, END)]
    pairs, singles = Counter(pairwise(stream)), Counter(stream)
    loss = -sum(n * math.log(n / singles[first]) for (first, _), n in pairs.items()) / len(stream)
    assert loss > language().entropy + 0.5


def test_sampling_depends_on_the_generator_alone():
    def drawn(seed: int) -> list[list[str]]:
        return language().sample(torch.Generator().manual_seed(seed), 20)[0]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize(
    ("start", "weights", "message"),
    [
        ("T", {"S": {"a": 1}}, "no rule for its start 'T'"),
        ("S", {"S": {}}, "rules of 'S' need weights above 0"),
        ("S", {"S": {"a": 1, "b": 0}}, "rules of 'S' need weights above 0"),
        ("S", {"S": {"a": math.nan}}, "rules of 'S' need weights above 0"),
        ("S", {"S": {"S S": 1, "a": 1}}, "sentences do not end: .* makes 1 new ones"),
    ],
)
def test_a_grammar_that_makes_no_text_is_refused(start, weights, message):
    with pytest.raises(InputError, match=message):
        Grammar(start, weights)


def test_the_built_in_text_is_large_enough_to_learn_from_and_all_in_its_vocabulary():
    corpus = grammar()
    sizes = {"train": 60_000, "validation": 10_000, "test": 20_000}
    for part, size in sizes.items():
        tokens = getattr(corpus, part)
        assert len(tokens) == pytest.approx(size, rel=0.05)
        assert corpus.vocabulary.decode(tokens[-1:]) == [END]
    assert corpus.unknown == {"train": 0, "validation": 0, "test": 0}
    assert len(corpus.vocabulary) == 234
    assert all(word.isalpha() and word.islower() for word in corpus.vocabulary.words[1:])
    assert set(corpus.train.tolist()) == set(range(234))
    assert 8 < language().expected_length < 12


def test_the_true_models_loss_is_near_the_entropy_and_is_that_of_the_very_text():
    corpus = grammar()
    assert corpus.entropy == language().entropy
    words = corpus.vocabulary.decode(corpus.validation)
    lines = " ".join(words).split(END)[:-1]
    probabilities = [derivations(language(), line.split())[1] for line in lines]
    loss = -sum(map(math.log, probabilities)) / len(words)
    assert corpus.true_nll["validation"] == pytest.approx(loss, abs=1e-9)
    # The loss is a ratio of sums over sentences: four standard errors by the delta method.
    texts, log_probabilities = sentences()
    lengths = np.array([len(text) + 1 for text in texts])
    spread = (-log_probabilities - corpus.entropy * lengths).std() / lengths.mean()
    for part, value in corpus.true_nll.items():
        count = len(getattr(corpus, part)) / lengths.mean()
        assert value == pytest.approx(corpus.entropy, abs=4 * spread / math.sqrt(count))


def test_the_built_in_text_is_the_same_everywhere():
    corpus = grammar()
    words = corpus.vocabulary.decode(torch.cat([corpus.train, corpus.validation, corpus.test]))
    digest = hashlib.sha256(" ".join(words).encode()).hexdigest()
    assert digest == "d033bf9a889583ed368024eb5b9a02eb39f77e502b44e6e62cf74941b7313fcd"
