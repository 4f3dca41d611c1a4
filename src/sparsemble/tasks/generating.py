"""Words that may come next, by an ensemble of language models, and texts drawn from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from sparsemble.data.vocabulary import END
from sparsemble.errors import InputError
from sparsemble.seeds import derive
from sparsemble.tasks.finite import finite
from sparsemble.tasks.language import LanguageModelling
from sparsemble.tasks.segments import SEGMENT
from sparsemble.tasks.task import Predictor


def generate(
    ensemble: Predictor,
    words: int,
    *,
    start: Sequence[str] = (),
    temperature: float = 1.0,
    seed: int = 0,
) -> Iterator[str]:
    """Draw words one by one from an ensemble of language models.

    Args:
        ensemble: One whose task is language modelling.
        words: How many.
        start: Words, or a text of words apart by spaces, that is read first; words the ensemble
            does not know count as `<unk>`.
        temperature: Below 1 the probable words are preferred.
        seed: The same seed draws the same words.
    """
    task = _language_task(ensemble)
    if not (temperature > 0 and math.isfinite(temperature)):
        raise InputError(f"temperature = {temperature}: must be above 0")
    read = beginning(task, start)
    generator = torch.Generator().manual_seed(derive(seed, "generate"))
    return _drawn(ensemble, task, words, read, temperature, generator)


def _drawn(
    ensemble: Predictor,
    task: LanguageModelling,
    words: int,
    read: Tensor,
    temperature: float,
    generator: torch.Generator,
) -> Iterator[str]:
    runner, known = ensemble.runner(), task.vocabulary.words
    for _ in range(words):
        logs = _next_logs(runner, task, read).double().cpu()
        weights = ((logs - logs.max()) / temperature).softmax(-1)
        read = torch.multinomial(weights, 1, generator=generator)
        yield known[int(read)]


def next_words(
    ensemble: Predictor, start: Sequence[str], count: int = 10
) -> list[tuple[str, float]]:
    """The most probable words after `start` (as in `generate`), with their probabilities."""
    if count < 1:
        raise InputError(f"count = {count}: ask for one word at least")
    task = _language_task(ensemble)
    read = beginning(task, start).view(-1, 1)
    return most_probable(task, next_evidence(ensemble.runner(), task, read), count)


def most_probable(task: LanguageModelling, evidence: Tensor, count: int) -> list[tuple[str, float]]:
    """The words that members expect together, with their probabilities.

    Args:
        task: Theirs.
        evidence: What each says of the next word, `(members, 1, words)`.
        count: How many words, the most probable first.
    """
    mean = task.mix(evidence)[0].exp()
    best = mean.topk(min(count, len(mean)))
    known = task.vocabulary.words
    return [
        (known[index], probability)
        for probability, index in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def unknown_words(ensemble: Predictor, words: Sequence[str]) -> int:
    """How many of the words an ensemble of language models does not know."""
    return _language_task(ensemble).vocabulary.encode(words, "the words")[1]


def _language_task(ensemble: Predictor) -> LanguageModelling:
    if not isinstance(ensemble.task, LanguageModelling):
        raise InputError(
            f"the ensemble holds {ensemble.task.noun}: text is drawn from language models"
        )
    return ensemble.task


def beginning(task: LanguageModelling, start: Sequence[str]) -> Tensor:
    """The beginning of a text, as if a sentence had ended before it."""
    words = start.split() if isinstance(start, str) else start
    tokens, _ = task.vocabulary.encode([END, *words], "the start of the text")
    return tokens


def _next_logs(runner: Callable[..., Tensor], task: LanguageModelling, read: Tensor) -> Tensor:
    """Log-probabilities of the word after one more stretch of text."""
    return task.mix(next_evidence(runner, task, read.view(-1, 1)))[0]


def next_evidence(runner: Callable[..., Tensor], task: LanguageModelling, read: Tensor) -> Tensor:
    """Every member's log-probabilities of the words after stretches of text of one length.

    Args:
        runner: Which goes on from what it read before.
        task: Of the ensemble.
        read: Tokens `(steps, streams)`; of each stream comes `(members, streams, words)`.
    """
    for part in read.split(SEGMENT):
        last = runner(part, lambda logits: task.evidence(logits[-1]))
    return finite(last, task)
