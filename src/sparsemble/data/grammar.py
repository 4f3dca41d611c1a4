"""The built-in text: a small language whose entropy is known exactly.

A probabilistic context-free grammar rewrites a symbol by one of its rules, each with its own
probability, until only words are left. With `p_r` the probability of rule `r`, the entropy of what
comes of symbol `A` and its expected length in words solve linear systems:

    H(A) = Σ_r p_r·(−log p_r + Σ_{B in r} H(B)),    L(A) = Σ_r p_r·Σ_{B in r} L(B),  L(word) = 1.

That is the entropy of derivations, and of sentences where each has only one, as in the built-in
language. Its sentences are independent, so its text has `H / (L + 1)` nats per token, `<eos>` being
one, and no model can have a lower expected loss.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch

from sparsemble.data.language import START, rules
from sparsemble.data.text import PARTS, Corpus
from sparsemble.data.vocabulary import END, Vocabulary
from sparsemble.errors import InputError
from sparsemble.seeds import derive

_TOKENS = {"train": 60_000, "validation": 10_000, "test": 20_000}
_STREAMS = {"train": "train", "validation": "valid", "test": "test"}
"""Names of the random streams, by which each part stays the text it is."""


class Rule(NamedTuple):
    """One way to rewrite a symbol."""

    probability: float
    symbols: tuple[str, ...]


class Grammar:
    """A probabilistic context-free grammar; what has no rules is a word.

    `weights` gives the right sides of each symbol's rules, symbols apart by spaces, and their
    weights, which are divided by their sum.

    >>> coin = Grammar("S", {"S": {"heads S": 1, "tails": 1}})
    >>> coin.words, coin.expected_length
    (('heads', 'tails'), 3.0)
    """

    def __init__(self, start: str, weights: Mapping[str, Mapping[str, float]]) -> None:
        if start not in weights:
            raise InputError(f"the grammar has no rule for its start {start!r}")
        self.start = start
        self.rules = {symbol: _rules(symbol, sides) for symbol, sides in weights.items()}
        listed = (word for rules in self.rules.values() for rule in rules for word in rule.symbols)
        self.words = tuple(dict.fromkeys(word for word in listed if word not in self.rules))
        entropy, length = self._solve()
        self.entropy_per_sentence = entropy
        self.expected_length = length + 1
        """Tokens a sentence, its `<eos>` counted."""
        self.entropy = entropy / self.expected_length
        """Nats a token."""

    def _solve(self) -> tuple[float, float]:
        """Entropy and expected number of words of what comes of the start."""
        order = {symbol: row for row, symbol in enumerate(self.rules)}
        expected = np.zeros((len(order), len(order)))
        own = np.zeros((len(order), 2))
        for symbol, row in order.items():
            for probability, symbols in self.rules[symbol]:
                own[row, 0] -= probability * math.log(probability)
                for part in symbols:
                    if part in order:
                        expected[row, order[part]] += probability
                    else:
                        own[row, 1] += probability
        growth = float(abs(np.linalg.eigvals(expected)).max())
        if growth >= 1:
            raise InputError(
                f"the grammar's sentences do not end: a symbol makes {growth:.3g} new ones on "
                "average; give the rules that end the recursion more weight"
            )
        entropy, length = np.linalg.solve(np.eye(len(order)) - expected, own)[order[self.start]]
        return float(entropy), float(length)

    def sample(
        self, generator: torch.Generator, sentences: int
    ) -> tuple[list[list[str]], list[float]]:
        """Sentences, without `<eos>`, and the log-probabilities of their derivations."""
        choices = {
            symbol: (
                list(accumulate(rule.probability for rule in rules))[:-1],
                [(math.log(rule.probability), rule.symbols[::-1]) for rule in rules],
            )
            for symbol, rules in self.rules.items()
        }
        draws = _uniform(generator)
        texts, log_probabilities = [], []
        for _ in range(sentences):
            words: list[str] = []
            total = 0.0
            waiting = [self.start]
            while waiting:
                symbol = waiting.pop()
                if symbol in choices:
                    bounds, rules = choices[symbol]
                    log_probability, reversed_symbols = rules[bisect(bounds, next(draws))]
                    total += log_probability
                    waiting += reversed_symbols
                else:
                    words.append(symbol)
            texts.append(words)
            log_probabilities.append(total)
        return texts, log_probabilities


def _rules(symbol: str, sides: Mapping[str, float]) -> tuple[Rule, ...]:
    if not sides or not all(0 < weight < math.inf for weight in sides.values()):
        raise InputError(f"the rules of {symbol!r} need weights above 0: {dict(sides)}")
    total = sum(sides.values())
    return tuple(Rule(weight / total, tuple(side.split())) for side, weight in sides.items())


def _uniform(generator: torch.Generator) -> Iterator[float]:
    """Numbers in [0, 1), drawn in blocks because a call for each would take most of the time."""
    while True:
        yield from torch.rand(8192, generator=generator, dtype=torch.float64).tolist()


@lru_cache(maxsize=1)
def grammar() -> Corpus:
    """The built-in text, the same on every machine: about 60,000, 10,000 and 20,000 tokens."""
    source = Grammar(START, rules())
    vocabulary = Vocabulary((END, *source.words))
    tokens, true_nll = {}, {}
    for part in PARTS:
        generator = torch.Generator().manual_seed(derive(0, "grammar", _STREAMS[part]))
        count = round(_TOKENS[part] / source.expected_length)
        sentences, log_probabilities = source.sample(generator, count)
        words = [word for sentence in sentences for word in (*sentence, END)]
        tokens[part], _ = vocabulary.encode(words, f"the {part} part of the built-in text")
        true_nll[part] = -sum(log_probabilities) / len(words)
    return Corpus(
        vocabulary,
        train=tokens["train"],
        validation=tokens["validation"],
        test=tokens["test"],
        unknown=dict.fromkeys(PARTS, 0),
        name="grammar",
        entropy=source.entropy,
        true_nll=true_nll,
    )
