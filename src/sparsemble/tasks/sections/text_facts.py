"""How language models read: a stretch of the validation text, word by word, and text of their own.

At every position there are the ensemble's probability of the word that came, its most probable
words, and how unsure it was: the predictive entropy, and the part its members disagree about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparsemble.data.vocabulary import END
from sparsemble.tasks.generating import generate
from sparsemble.tasks.language import LanguageModelling
from sparsemble.tasks.task import Predictor

STRETCH = 160
"""Positions that are shown."""
TOP = 5
EXTREMES = 8
ALIKE = 1e-3
"""Disagreements, and tenfold entropies, that differ by less nats make no place stand out."""
SAMPLED = 80
"""Words of sample text."""


@dataclass(frozen=True)
class Position:
    """One word of the text as the ensemble met it; uncertainties in nats."""

    word: str
    probability: float
    entropy: float
    mutual_information: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class TextFacts:
    """A stretch of text read by the ensemble.

    `most` indexes where the members disagree most, `least` where the ensemble is surest; they are
    empty where all positions are alike in that.
    """

    positions: tuple[Position, ...]
    most: tuple[int, ...]
    least: tuple[int, ...]
    drawn: tuple[str, ...]

    def context(self, index: int, words: int = 6) -> tuple[str, ...]:
        """The words before a position."""
        return tuple(p.word for p in self.positions[max(0, index - words) : index])


def text_facts(
    task: LanguageModelling, ensemble: Predictor, tokens: Tensor, seed: int
) -> TextFacts:
    """Read the beginning of `tokens`, and draw a text with the given seed."""
    positions = read_stretch(task, ensemble, tokens[:STRETCH])
    most = lowest([-p.mutual_information for p in positions], ALIKE)
    least = lowest([p.entropy for p in positions], 10 * ALIKE)
    return TextFacts(positions, most, least, tuple(generate(ensemble, SAMPLED, seed=seed)))


def lowest(values: Sequence[float], alike: float) -> tuple[int, ...]:
    """Where the lowest values are, the very lowest first; nowhere if all are alike.

    >>> lowest([3.0, 1.0, 2.0], 0.1), lowest([2.0, 2.0], 0.1)
    ((1, 2, 0), ())
    """
    if max(values) - min(values) < alike:
        return ()
    return tuple(sorted(range(len(values)), key=lambda k: values[k])[:EXTREMES])


def read_stretch(
    task: LanguageModelling, ensemble: Predictor, tokens: Tensor
) -> tuple[Position, ...]:
    """Every position of a text that begins after an `<eos>`."""
    words = task.vocabulary.words
    first = tokens.new_tensor([task.vocabulary.index(END)])
    inputs = torch.cat([first, tokens[:-1]]).view(-1, 1)
    logs = ensemble.runner()(inputs, lambda logits: task.evidence(logits.squeeze(1))).cpu()
    doubt = task.uncertainty(logs)
    mean = task.mix(logs).exp()
    best = mean.topk(min(TOP, len(words)))
    return tuple(
        Position(
            words[token],
            float(mean[place, token]),
            float(doubt.total[place]),
            float(doubt.epistemic[place]),
            tuple(
                (words[k], float(p))
                for k, p in zip(
                    best.indices[place].tolist(), best.values[place].tolist(), strict=True
                )
            ),
        )
        for place, token in enumerate(tokens.tolist())
    )
