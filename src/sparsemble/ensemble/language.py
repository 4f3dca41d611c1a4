"""An ensemble of language models: word probabilities averaged at every position.

A text is read a segment at a time. Every member carries its own state and gives the
log-probability of each target; a running `logaddexp` over the members is the log of their mean for
one, two, … all of them. Memory holds one segment of one member's logits, however long the text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsemble.data import Vocabulary
from sparsemble.data.vocabulary import END
from sparsemble.ensemble.base import BaseEnsemble
from sparsemble.errors import InputError
from sparsemble.layouts.language_model import State
from sparsemble.members import Member, listed
from sparsemble.seeds import derive

_SEGMENT = 256
"""Positions read at a time, over all streams."""
_IGNORED = -100


@dataclass(frozen=True)
class TextScore:
    """How well a text is predicted: perplexity of the first one, two, … members together.

    `members` holds each member's own.
    """

    tokens: int
    curve: tuple[float, ...]
    members: tuple[float, ...]

    @property
    def perplexity(self) -> float:
        """Of all members together."""
        return self.curve[-1]


class LanguageEnsemble(BaseEnsemble):
    """Language models that predict the next word together; the vocabulary is part of it."""

    def __init__(self, members: Sequence[Member], *, vocabulary: Vocabulary) -> None:
        super().__init__(members)
        known = len(vocabulary)
        for member in members:
            if (words := member.layout.outputs.size) != known:
                raise InputError(f"a vocabulary of {known} words for a network of {words}")
        if END not in vocabulary.words:
            raise InputError(f"the vocabulary lacks {END}, after which every text begins")
        self.vocabulary = vocabulary

    @staticmethod
    def load(folder: str | Path) -> LanguageEnsemble:
        """Read a saved ensemble."""
        from sparsemble.ensemble.saving import load_ensemble

        loaded = load_ensemble(Path(folder))
        if not isinstance(loaded, LanguageEnsemble):
            raise InputError(f"{folder} holds classifiers: use Ensemble.load")
        return loaded

    @torch.no_grad()
    def score(self, tokens: Tensor, *, streams: int = 1) -> TextScore:
        """Perplexity on a text, every token counted; the first one follows an `<eos>`.

        Final figures use one stream. More are faster: the text is cut into that many pieces read
        side by side, each from the zero state.
        """
        together = torch.zeros(len(self), dtype=torch.float64)
        alone = torch.zeros(len(self), dtype=torch.float64)
        readers = [_Reader(member) for member in self]
        self.vocabulary.check(tokens)
        for inputs, targets in _segments(tokens, streams, self._index(END)):
            total: Tensor | None = None
            for number, reader in enumerate(readers):
                own = reader.log_probabilities(inputs, targets)
                total = own if total is None else torch.logaddexp(total, own)
                alone[number] -= own.sum()
                together[number] -= (total - math.log(number + 1)).sum()
        count = len(tokens)
        return TextScore(
            count,
            tuple((together / count).exp().tolist()),
            tuple((alone / count).exp().tolist()),
        )

    @torch.no_grad()
    def member_log_probabilities(self, tokens: Tensor, *, streams: int = 1) -> Tensor:
        """Log-probability of every token by every member, `(members, tokens)`.

        The tokens come in the order they are read: with several streams, one of each in turn. For
        comparing subsets of the members; unlike `score` it takes memory for every token.
        """
        self.vocabulary.check(tokens)
        readers = [_Reader(member) for member in self]
        segments = list(_segments(tokens, streams, self._index(END)))
        return torch.stack(
            [torch.cat([reader.log_probabilities(*s) for s in segments]) for reader in readers]
        )

    def generate(
        self, words: int, *, start: Sequence[str] = (), temperature: float = 1.0, seed: int = 0
    ) -> Iterator[str]:
        """Draw words one by one; `temperature` below 1 prefers the probable ones.

        `start`, words or a text of words apart by spaces, is read first; words the ensemble does
        not know count as `<unk>`.
        """
        if not (temperature > 0 and math.isfinite(temperature)):
            raise InputError(f"temperature = {temperature}: must be above 0")
        read = self._encoded(start)
        generator = torch.Generator().manual_seed(derive(seed, "generate"))
        return self._drawn(words, read, temperature, generator)

    def _drawn(
        self, words: int, read: Tensor, temperature: float, generator: torch.Generator
    ) -> Iterator[str]:
        readers = [_Reader(member) for member in self]
        for _ in range(words):
            logs = self._mean_next(readers, read).double().log()
            weights = ((logs - logs.max()) / temperature).softmax(-1)
            read = torch.multinomial(weights, 1, generator=generator)
            yield self.vocabulary.words[int(read)]

    @torch.no_grad()
    def next_words(self, start: Sequence[str], count: int = 10) -> list[tuple[str, float]]:
        """The most probable words after `start` (as in `generate`), with their probabilities."""
        mean = self._mean_next([_Reader(member) for member in self], self._encoded(start))
        best = mean.topk(min(count, len(mean)))
        return [
            (self.vocabulary.words[i], p)
            for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def _encoded(self, start: Sequence[str]) -> Tensor:
        """The beginning of a text, as if a sentence had ended before it."""
        words = start.split() if isinstance(start, str) else start
        tokens, _ = self.vocabulary.encode([END, *words], "the start of the text")
        return tokens

    @staticmethod
    @torch.no_grad()
    def _mean_next(readers: Sequence[_Reader], read: Tensor) -> Tensor:
        """The mean probabilities of the word after one more stretch of text."""
        return torch.stack([reader.next_probabilities(read) for reader in readers]).mean(0)

    def _index(self, word: str) -> int:
        indices, _ = self.vocabulary.encode([word], "the vocabulary")
        return int(indices)


class _Reader:
    """One member on its way through a text."""

    def __init__(self, member: Member) -> None:
        self._network: nn.Module = listed(member.eval())
        self._state: State | None = None

    def log_probabilities(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Of the targets of one segment, in double precision, ignored ones left out."""
        logits, self._state = self._network(inputs, self._state)
        flat = targets.flatten()
        losses = F.cross_entropy(logits.flatten(0, 1), flat, reduction="none")
        kept: Tensor = losses[flat != _IGNORED]
        return -kept.double()

    def next_probabilities(self, tokens: Tensor) -> Tensor:
        """Probabilities of the word after one stream's tokens, which may be many."""
        for part in tokens.view(-1, 1).split(_SEGMENT):
            hidden, self._state = self._network.hidden(part, self._state)  # type: ignore[operator]
        logits: Tensor = self._network.decoder(hidden[-1])  # type: ignore[operator]
        return logits[0].softmax(-1)


def _segments(tokens: Tensor, streams: int, first: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets `(steps, streams)`: every token is a target once."""
    if not 1 <= streams <= len(tokens):
        raise InputError(f"a text of {len(tokens)} tokens cannot be read in {streams} streams")
    length = -(-len(tokens) // streams)
    padding = length * streams - len(tokens)
    targets = F.pad(tokens, (0, padding), value=_IGNORED).view(streams, length).t()
    before = torch.cat([tokens.new_tensor([first]), tokens[:-1]])
    inputs = F.pad(before, (0, padding), value=first).view(streams, length).t()
    steps = max(1, _SEGMENT // streams)
    yield from zip(inputs.split(steps), targets.split(steps), strict=True)
