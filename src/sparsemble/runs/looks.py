"""Looks: examples on which a growing ensemble is watched. Nothing is decided by them.

A classifier is looked at on the caller's validation data or, without any, on training examples; a
language model on its validation text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from sparsemble.data import Corpus, Dataset
from sparsemble.ensemble import BaseEnsemble, Ensemble, LanguageEnsemble
from sparsemble.ensemble.metrics import error_rate, perplexity
from sparsemble.members import Member

_EXAMPLES = 2000
_TOKENS = 20_000
_STREAMS = 20


class Look(Protocol):
    """What members predict for some examples, and what predictions are worth."""

    metric: str
    on: str
    seen: bool
    """Are the members trained on it?"""

    def predictions(self, member: Member) -> Tensor:
        """What one member gives, in a form that can be kept for every member."""
        ...

    def figure(self, predictions: Sequence[Tensor]) -> float:
        """The metric of members that predict together."""
        ...

    def labels(self, ensemble: BaseEnsemble) -> Tensor:
        """What each member holds most probable, `(members, examples)`."""
        ...


class ExampleLook:
    """The error on the first examples of a data set, by probabilities."""

    metric = "error"

    def __init__(
        self,
        data: Dataset,
        ensemble: Callable[[Sequence[Member]], Ensemble],
        *,
        seen: bool,
    ) -> None:
        """`ensemble` makes one that can read such data."""
        self.seen = seen
        self.on = "training examples" if seen else "validation examples"
        self._inputs = data.inputs[:_EXAMPLES]
        self._targets = data.targets[:_EXAMPLES]
        self._ensemble = ensemble

    def predictions(self, member: Member) -> Tensor:
        """Probabilities of every class."""
        return self._ensemble([member]).member_probabilities(self._inputs)[0]

    def figure(self, predictions: Sequence[Tensor]) -> float:
        """The error rate of the mean."""
        return error_rate(torch.stack(list(predictions)).mean(0), self._targets)

    def labels(self, ensemble: BaseEnsemble) -> Tensor:
        """The most probable classes."""
        assert isinstance(ensemble, Ensemble)
        return ensemble.member_probabilities(self._inputs).argmax(-1)


class TextLook:
    """The perplexity on the beginning of the validation text."""

    metric = "perplexity"
    seen = False

    def __init__(self, corpus: Corpus) -> None:
        # A beginning may be harder or easier than the whole, so it is called what it is.
        part = f"first {_TOKENS:,} tokens of the " if len(corpus.valid) > _TOKENS else ""
        self.on = f"{part}validation text"
        self._vocabulary = corpus.vocabulary
        self._tokens = corpus.valid[:_TOKENS]

    def predictions(self, member: Member) -> Tensor:
        """Log-probabilities of the words that come."""
        alone = LanguageEnsemble([member], vocabulary=self._vocabulary)
        streams = min(_STREAMS, len(self._tokens))
        return alone.member_log_probabilities(self._tokens, streams=streams)[0]

    def figure(self, predictions: Sequence[Tensor]) -> float:
        """The perplexity of the mean."""
        return perplexity(torch.stack(list(predictions)))

    def labels(self, ensemble: BaseEnsemble) -> Tensor:
        """The most probable next words, the text read as one stream."""
        inputs = self._tokens[:_EXAMPLES].view(-1, 1)
        with torch.no_grad():
            words = [member.network(inputs)[0].argmax(-1).squeeze(1) for member in ensemble]
        return torch.stack(words)
